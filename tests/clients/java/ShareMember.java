import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/** Members of a share group with Kafka's own client; arguments and lines as in share_member.py. */
public class ShareMember implements Runnable {
    static volatile boolean closing;

    record Place(int partition, long offset) {}

    final String name;
    final String kind;
    final String topic;
    final KafkaShareConsumer<String, String> consumer;
    final Map<Place, AcknowledgeType> told = new HashMap<>(); // what the broker has not answered yet
    final Set<Place> renewed = new HashSet<>();

    ShareMember(String bootstrap, String topic, String group, String[] spec) {
        this.topic = topic;
        name = spec[0];
        kind = spec[1];
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("client.id", name);
        settings.put("group.id", group);
        settings.put("share.acknowledgement.mode", kind.equals("implicit") ? "implicit" : "explicit");
        settings.put("max.poll.records", "100");
        settings.put("reconnect.backoff.max.ms", "500");
        settings.put("key.deserializer", StringDeserializer.class);
        settings.put("value.deserializer", StringDeserializer.class);
        System.getProperties().forEach((key, value) -> {
            if (key.toString().startsWith("kafka.")) {
                settings.put(key.toString().substring("kafka.".length()), value);
            }
        });
        consumer = new KafkaShareConsumer<>(settings);
    }

    public static void main(String[] arguments) throws Exception {
        List<Thread> threads = new ArrayList<>();
        for (int i = 3; i < arguments.length; i++) {
            threads.add(new Thread(new ShareMember(arguments[0], arguments[1], arguments[2], arguments[i].split("="))));
        }
        threads.forEach(Thread::start);
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null && !line.equals("close"); line = input.readLine()) {}
        closing = true;
        for (Thread thread : threads) {
            thread.join();
        }
    }

    @Override
    public void run() {
        try {
            consumer.setAcknowledgementCommitCallback(this::answered);
            consumer.subscribe(List.of(topic));
            while (!closing) {
                try {
                    take(consumer.poll(Duration.ofMillis(200)));
                } catch (KafkaException problem) {
                    say("trouble", "\"text\": \"" + clean(problem) + "\"");
                }
            }
            consumer.close(Duration.ofSeconds(30));
            say("closed", "\"pending\": " + told.size());
        } catch (Throwable problem) {
            say("problem", "\"text\": \"" + clean(problem) + "\"");
        }
    }

    void take(Iterable<ConsumerRecord<String, String>> records) throws KafkaException {
        Map<Integer, TreeMap<Long, Integer>> got = new TreeMap<>();
        List<ConsumerRecord<String, String>> fresh = new ArrayList<>();
        for (ConsumerRecord<String, String> each : records) {
            Place place = new Place(each.partition(), each.offset());
            if (!each.value().equals(Long.toString(each.offset()))) {
                say("problem", "\"text\": \"partition " + each.partition() + " offset " + each.offset() + "\"");
            }
            if (!renewed.contains(place)) {
                got.computeIfAbsent(each.partition(), p -> new TreeMap<>()).put(each.offset(), (int) each.deliveryCount().orElse((short) 0));
            }
            fresh.add(each);
        }
        if (fresh.isEmpty()) {
            return;
        }
        say("got", "\"ranges\": " + ranges(got));
        for (ConsumerRecord<String, String> each : fresh) {
            acknowledge(each);
        }
        work();
    }

    void acknowledge(ConsumerRecord<String, String> record) {
        Place place = new Place(record.partition(), record.offset());
        boolean bad = record.offset() % 10 == 3;
        AcknowledgeType type = switch (kind) {
            case "release" -> bad ? AcknowledgeType.RELEASE : AcknowledgeType.ACCEPT;
            case "reject" -> bad ? AcknowledgeType.REJECT : AcknowledgeType.ACCEPT;
            case "renew" -> renewed.remove(place) ? AcknowledgeType.ACCEPT : AcknowledgeType.RENEW;
            default -> AcknowledgeType.ACCEPT;
        };
        told.put(place, type);
        if (!kind.equals("implicit")) {
            consumer.acknowledge(record, type);
        }
    }

    void work() {
        try {
            Thread.sleep(2);
        } catch (InterruptedException problem) {
            Thread.currentThread().interrupt();
        }
    }

    void answered(Map<TopicIdPartition, Set<Long>> offsets, Exception problem) {
        Map<AcknowledgeType, Map<Integer, TreeMap<Long, Integer>>> kinds = new TreeMap<>();
        offsets.forEach((partition, numbers) -> {
            for (long offset : new TreeSet<>(numbers)) {
                Place place = new Place(partition.partition(), offset);
                AcknowledgeType type = told.remove(place);
                if (type == null) { // a gap, or what the client released by itself
                    continue;
                }
                if (type == AcknowledgeType.RENEW && problem == null) {
                    renewed.add(place);
                }
                kinds.computeIfAbsent(type, t -> new TreeMap<>())
                        .computeIfAbsent(partition.partition(), p -> new TreeMap<>()).put(offset, 0);
            }
        });
        kinds.forEach((type, places) -> {
            String what = "\"kind\": \"" + type.name().toLowerCase() + "\", \"ranges\": " + ranges(places);
            say(problem == null ? "said" : "failed", what + (problem == null ? "" : ", \"text\": \"" + clean(problem) + "\""));
        });
    }

    /** [partition, first offset, last offset, delivery count], as few as possible. */
    static String ranges(Map<Integer, TreeMap<Long, Integer>> places) {
        List<String> all = new ArrayList<>();
        places.forEach((partition, offsets) -> {
            long first = -1;
            long last = -2;
            int count = 0;
            for (Map.Entry<Long, Integer> each : offsets.entrySet()) {
                if (each.getKey() != last + 1 || each.getValue() != count) {
                    if (first >= 0) {
                        all.add("[" + partition + ", " + first + ", " + last + ", " + count + "]");
                    }
                    first = each.getKey();
                    count = each.getValue();
                }
                last = each.getKey();
            }
            all.add("[" + partition + ", " + first + ", " + last + ", " + count + "]");
        });
        return all.toString();
    }

    static String clean(Throwable problem) {
        return problem.toString().replace('"', '\'').replace('\\', '/').replaceAll("\\s+", " ");
    }

    void say(String event, String more) {
        String line = "{\"member\": \"" + name + "\", \"event\": \"" + event + "\", \"at\": " + System.nanoTime() / 1e9;
        synchronized (System.out) {
            System.out.println(line + ", " + more + "}");
            System.out.flush();
        }
    }
}
