import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** The story of tests/clients/story.py with Kafka's own Java client. Arguments: bootstrap, startMs. */
public class MatrixClient {
    static final int RECORDS = 10_000;
    static final int PARTITIONS = 3;
    static final int SEEK_RECORD = 6_000;
    static String bootstrap;
    static long startMs;

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[0];
        startMs = Long.parseLong(arguments[1]);
        for (String compression : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
            story("java-" + compression, RECORDS, Map.of("compression.type", compression));
        }
        story("java-idempotent", 3000, Map.of("enable.idempotence", "true"));
        for (String acks : List.of("0", "1", "all")) {
            story("java-acks-" + acks, 3000, Map.of("acks", acks, "enable.idempotence", "false"));
        }
    }

    static void story(String topic, int count, Map<String, String> settings) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            admin.createTopics(List.of(new NewTopic(topic, PARTITIONS, (short) 1))).all().get();
            produce(topic, count, settings);
            consume(topic, count);
            admin.deleteTopics(List.of(topic)).all().get();
            check(!admin.listTopics().names().get().contains(topic), "the topic is still listed");
        }
        System.out.println(topic + " ok");
    }

    static void produce(String topic, int count, Map<String, String> settings) throws Exception {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("linger.ms", "5");
        properties.putAll(settings);
        try (var producer = new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer())) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (int i = 0; i < count; i++) {
                sent.add(producer.send(
                    new ProducerRecord<>(topic, i % PARTITIONS, startMs + i, "key-" + i, value(i))));
            }
            producer.flush();
            for (Future<RecordMetadata> each : sent) {
                each.get();
            }
        }
    }

    static void consume(String topic, int count) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("enable.auto.commit", "false");
        try (var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            List<TopicPartition> places = new ArrayList<>();
            for (int partition = 0; partition < PARTITIONS; partition++) {
                places.add(new TopicPartition(topic, partition));
            }
            consumer.assign(places);
            consumer.seekToBeginning(places);
            readFrom(consumer, new long[PARTITIONS], count);
            if (count == RECORDS) {
                seek(consumer, places);
            }
            Map<TopicPartition, Long> ends = consumer.endOffsets(places);
            for (TopicPartition place : places) {
                check(ends.get(place) == (count - place.partition() + PARTITIONS - 1) / PARTITIONS, "end of " + place);
            }
        }
    }

    static void seek(KafkaConsumer<String, String> consumer, List<TopicPartition> places) {
        Map<TopicPartition, Long> times = new HashMap<>();
        places.forEach(place -> times.put(place, startMs + SEEK_RECORD));
        long[] from = new long[PARTITIONS];
        for (Map.Entry<TopicPartition, OffsetAndTimestamp> found : consumer.offsetsForTimes(times).entrySet()) {
            from[found.getKey().partition()] = found.getValue().offset();
            consumer.seek(found.getKey(), found.getValue().offset());
        }
        for (int i = SEEK_RECORD; i < SEEK_RECORD + PARTITIONS; i++) {
            check(from[i % PARTITIONS] == i / PARTITIONS, "offset for the time of record " + i);
        }
        readFrom(consumer, from, RECORDS);
    }

    /** Reads to the end; `next` is the offset expected next in each partition. */
    static void readFrom(KafkaConsumer<String, String> consumer, long[] next, int count) {
        int missing = count;
        for (int partition = 0; partition < PARTITIONS; partition++) {
            missing -= next[partition];
        }
        while (missing > 0) {
            var polled = consumer.poll(Duration.ofSeconds(30));
            check(!polled.isEmpty(), missing + " records are missing");
            for (ConsumerRecord<String, String> record : polled) {
                int partition = record.partition();
                int i = (int) (record.offset() * PARTITIONS + partition);
                check(record.offset() == next[partition], "offset " + record.offset() + " in " + partition);
                check(record.key().equals("key-" + i), "key of record " + i);
                check(record.value().equals(value(i)), "value of record " + i);
                check(record.timestamp() == startMs + i, "time of record " + i);
                next[partition]++;
                missing--;
            }
        }
    }

    static String value(int i) {
        return "value-" + i + "-" + "kohort".repeat(i % 8);
    }

    static void check(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }
}
