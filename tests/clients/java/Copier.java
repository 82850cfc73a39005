import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Copies records exactly once; arguments and topics as in tests/clients/transactions/copier.py. */
public class Copier {
    static KafkaConsumer<String, String> consumer;
    static KafkaProducer<String, String> producer;

    public static void main(String[] arguments) {
        consumer = consumer(arguments[0], arguments[1], arguments[2], arguments[3]);
        producer = producer(arguments[0], arguments[3]);
        try {
            again(producer::initTransactions);
            consumer.subscribe(List.of("originals"));
            while (true) {
                ConsumerRecords<String, String> found = consumer.poll(Duration.ofMillis(200));
                if (!found.isEmpty()) {
                    copy(found);
                }
            }
        } catch (Throwable problem) { // whoever supervises it starts it again
            say(problem);
            System.exit(3);
        }
    }

    static void copy(ConsumerRecords<String, String> records) {
        try {
            producer.beginTransaction();
            for (ConsumerRecord<String, String> each : records) {
                String value = each.partition() + ":" + each.offset();
                producer.send(new ProducerRecord<>("copies", each.partition(), null, value));
            }
            producer.sendOffsetsToTransaction(behind(records), consumer.groupMetadata());
            again(producer::commitTransaction);
        } catch (ProducerFencedException | InvalidProducerEpochException problem) {
            throw problem;
        } catch (KafkaException problem) {
            say(problem);
            again(producer::abortTransaction); // fails if this producer cannot go on
            rewind();
        }
    }

    static Map<TopicPartition, OffsetAndMetadata> behind(ConsumerRecords<String, String> records) {
        Map<TopicPartition, OffsetAndMetadata> ends = new HashMap<>();
        for (ConsumerRecord<String, String> each : records) {
            ends.put(new TopicPartition(each.topic(), each.partition()), new OffsetAndMetadata(each.offset() + 1));
        }
        return ends;
    }

    /** To the committed offsets of what this member still has. */
    static void rewind() {
        consumer.committed(consumer.assignment(), Duration.ofSeconds(60)).forEach((partition, offset) -> {
            if (offset == null) {
                consumer.seekToBeginning(List.of(partition));
            } else {
                consumer.seek(partition, offset);
            }
        });
    }

    /** As the documentation of the client tells: after a timeout the same call may be made again. */
    static void again(Runnable action) {
        while (true) {
            try {
                action.run();
                return;
            } catch (TimeoutException problem) {
                say(problem);
            }
        }
    }

    static void say(Throwable problem) {
        System.out.println("trouble " + problem.getClass().getSimpleName() + " " + problem.getMessage().replace('\n', ' '));
    }

    static KafkaConsumer<String, String> consumer(String bootstrap, String group, String protocol, String name) {
        Properties settings = common(bootstrap, name);
        settings.put("group.id", group);
        settings.put("group.protocol", protocol);
        if (protocol.equals("classic")) {
            settings.put("session.timeout.ms", "6000");
            settings.put("heartbeat.interval.ms", "500");
            settings.put("partition.assignment.strategy", "org.apache.kafka.clients.consumer.RangeAssignor");
        }
        settings.put("isolation.level", "read_committed");
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "earliest");
        settings.put("max.poll.records", "50");
        return new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
    }

    static KafkaProducer<String, String> producer(String bootstrap, String name) {
        Properties settings = common(bootstrap, name);
        settings.put("transactional.id", name);
        settings.put("transaction.timeout.ms", "10000");
        settings.put("linger.ms", "0");
        return new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
    }

    static Properties common(String bootstrap, String name) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("client.id", name);
        settings.put("reconnect.backoff.max.ms", "500");
        return settings;
    }
}
