import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.locks.ReadWriteLock;
import java.util.concurrent.locks.ReentrantReadWriteLock;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * A member of each of its groups with Kafka's own client; arguments and lines as in group_member.py. A property
 * -Dkafka.NAME=VALUE is a setting of the consumers. When standard input says `stall`, nobody polls any more.
 */
public class GroupMember implements Runnable, ConsumerRebalanceListener {
    static final Map<String, String> ASSIGNORS = Map.of(
            "range", "RangeAssignor",
            "roundrobin", "RoundRobinAssignor",
            "sticky", "StickyAssignor",
            "cooperative-sticky", "CooperativeStickyAssignor");
    static final ReadWriteLock POLLING = new ReentrantReadWriteLock(); // who writes keeps everyone from polling
    static final long WORK_MS = Long.parseLong(System.getenv().getOrDefault("KOHORT_TEST_WORK_MS", "0"));
    static volatile boolean closing;

    final String topic;
    final String group;
    final boolean byPattern;
    final Properties settings = new Properties();
    final Map<Integer, Long> toCommit = new HashMap<>();
    KafkaConsumer<String, String> consumer;

    GroupMember(String bootstrap, String topic, String sessionMs, String[] spec) {
        this.topic = topic;
        this.group = spec[0];
        this.byPattern = spec[1].equals("consumer-regex");
        settings.put("bootstrap.servers", bootstrap);
        settings.put("client.id", "java");
        settings.put("group.id", group);
        if (ASSIGNORS.containsKey(spec[1])) {
            settings.put("partition.assignment.strategy", "org.apache.kafka.clients.consumer." + ASSIGNORS.get(spec[1]));
            settings.put("session.timeout.ms", sessionMs);
            settings.put("heartbeat.interval.ms", "500");
        } else { // then the client refuses these settings: the broker decides
            settings.put("group.protocol", "consumer");
            if (spec[1].equals("consumer-range")) {
                settings.put("group.remote.assignor", "range");
            }
        }
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "earliest");
        settings.put("reconnect.backoff.max.ms", "500");
        settings.put("fetch.max.wait.ms", "200");
        settings.put("default.api.timeout.ms", "10000");
        // With the default, rebootstrap, it joined again ("cached metadata has changed") after about half the restarts.
        settings.put("metadata.recovery.strategy", "none");
        settings.put("key.deserializer", StringDeserializer.class);
        settings.put("value.deserializer", StringDeserializer.class);
        System.getProperties().forEach((name, value) -> {
            if (name.toString().startsWith("kafka.")) {
                settings.put(name.toString().substring("kafka.".length()), value);
            }
        });
        if (spec.length > 2) {
            settings.put("group.instance.id", spec[2]);
        }
    }

    public static void main(String[] arguments) throws Exception {
        List<Thread> threads = new ArrayList<>();
        for (int i = 3; i < arguments.length; i++) {
            threads.add(new Thread(new GroupMember(arguments[0], arguments[1], arguments[2], arguments[i].split("="))));
        }
        threads.forEach(Thread::start);
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        if ("stall".equals(input.readLine())) {
            POLLING.writeLock().lock();
            input.readLine();
            POLLING.writeLock().unlock();
        }
        closing = true;
        for (Thread thread : threads) {
            thread.join();
        }
    }

    @Override
    public void run() {
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings)) {
            if (byPattern) {
                consumer.subscribe(new SubscriptionPattern(topic.substring(0, topic.length() - 1) + "[a-z]"), this);
            } else {
                consumer.subscribe(List.of(topic), this);
            }
            this.consumer = consumer;
            while (!closing) {
                POLLING.readLock().lock();
                try {
                    consume();
                } finally {
                    POLLING.readLock().unlock();
                }
                commit(new TreeMap<>(toCommit));
            }
        } catch (Exception problem) {
            say("problem", "\"text\": \"" + problem.toString().replace('"', '\'').replace('\n', ' ') + "\"");
        }
        say("closed", "\"partitions\": []");
    }

    void consume() throws InterruptedException {
        List<long[]> ranges = new ArrayList<>();
        long[] range = null;
        for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(100))) {
            if (!record.value().equals(Long.toString(record.offset()))) {
                say("problem", "\"text\": \"partition " + record.partition() + " offset " + record.offset() + "\"");
            }
            if (range != null && range[0] == record.partition() && range[2] == record.offset() - 1) {
                range[2] = record.offset();
            } else {
                range = new long[] {record.partition(), record.offset(), record.offset()};
                ranges.add(range);
            }
            toCommit.put(record.partition(), record.offset() + 1);
        }
        if (!ranges.isEmpty()) {
            say("consumed", "\"ranges\": " + ranges.stream().map(r -> "[" + r[0] + ", " + r[1] + ", " + r[2] + "]").toList());
            Thread.sleep(WORK_MS);
        }
    }

    void commit(Map<Integer, Long> offsets) {
        if (offsets.isEmpty()) {
            return;
        }
        Map<TopicPartition, OffsetAndMetadata> places = new HashMap<>();
        offsets.forEach((partition, offset) -> places.put(new TopicPartition(topic, partition), new OffsetAndMetadata(offset)));
        try {
            consumer.commitSync(places);
        } catch (KafkaException problem) { // somebody joins or the broker is away: the next round commits it
            say("commit_failed", "\"text\": \"" + problem.getClass().getSimpleName() + "\"");
            return;
        }
        say("committed", "\"offsets\": {" + offsets.entrySet().stream()
                .map(e -> "\"" + e.getKey() + "\": " + e.getValue()).collect(Collectors.joining(", ")) + "}");
        toCommit.keySet().removeAll(offsets.keySet());
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        say("assigned", "\"partitions\": " + partitions.stream().map(TopicPartition::partition).toList());
    }

    /** The next owner begins where this one has committed: commit what an earlier try could not. */
    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        Map<Integer, Long> left = new TreeMap<>(toCommit);
        left.keySet().retainAll(partitions.stream().map(TopicPartition::partition).toList());
        commit(left);
        forget("revoked", partitions);
    }

    @Override
    public void onPartitionsLost(Collection<TopicPartition> partitions) {
        forget("lost", partitions);
    }

    void forget(String event, Collection<TopicPartition> partitions) {
        partitions.forEach(each -> toCommit.remove(each.partition()));
        say(event, "\"partitions\": " + partitions.stream().map(TopicPartition::partition).toList());
    }

    void say(String event, String rest) {
        synchronized (System.out) {
            System.out.println("{\"group\": \"" + group + "\", \"event\": \"" + event + "\", \"at\": "
                    + System.nanoTime() / 1e9 + ", " + rest + "}");
        }
    }
}
