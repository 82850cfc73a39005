import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/**
 * What the Java client's assignors make of groups that are told on standard input, a word a field:
 * <pre>
 * topic NAME COUNT
 * member ID INSTANCE|- TOPIC,...|- TOPIC:PARTITION,...|-     (the last: what it owned)
 * assign
 * </pre>
 * After each "assign" it prints, for each assignor and member, "ASSIGNOR MEMBER TOPIC:PARTITION,...", and then "done".
 */
public class Assignors {
    static final int GENERATION = 7;

    public static void main(String[] arguments) throws Exception {
        var input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Map<String, Integer> topics = new TreeMap<>();
        List<String[]> members = new ArrayList<>();
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split(" ");
            switch (words[0]) {
                case "topic" -> topics.put(words[1], Integer.valueOf(words[2]));
                case "member" -> members.add(words);
                default -> {
                    for (var assignor : List.of(new RangeAssignor(), new RoundRobinAssignor(), new StickyAssignor(),
                                                new CooperativeStickyAssignor())) {
                        print(assignor, topics, members);
                    }
                    System.out.println("done");
                    topics.clear();
                    members.clear();
                }
            }
        }
    }

    static void print(ConsumerPartitionAssignor assignor, Map<String, Integer> topics, List<String[]> members) {
        Map<String, Subscription> subscriptions = new TreeMap<>();
        for (String[] member : members) {
            subscriptions.put(member[1], subscription(assignor, member));
        }
        var assigned = assignor.assign(cluster(topics), new GroupSubscription(subscriptions)).groupAssignment();
        for (var entry : assigned.entrySet()) {
            List<String> partitions = new ArrayList<>();
            for (TopicPartition partition : entry.getValue().partitions()) {
                partitions.add(partition.topic() + ":" + partition.partition());
            }
            System.out.println(assignor.name() + " " + entry.getKey() + " " + String.join(",", partitions));
        }
    }

    static Subscription subscription(ConsumerPartitionAssignor assignor, String[] member) {
        List<String> topics = words(member[3]);
        List<TopicPartition> owned = new ArrayList<>();
        for (String partition : words(member[4])) {
            int colon = partition.lastIndexOf(':');
            owned.add(new TopicPartition(partition.substring(0, colon), Integer.parseInt(partition.substring(colon + 1))));
        }
        ByteBuffer userData = userData(assignor, member[1], new HashSet<>(topics), owned);
        var subscription = new Subscription(topics, userData, owned, GENERATION, Optional.empty());
        if (!member[2].equals("-")) {
            subscription.setGroupInstanceId(Optional.of(member[2]));
        }
        return subscription;
    }

    /** The sticky assignor tells the leader in its own words what a member had. */
    static ByteBuffer userData(ConsumerPartitionAssignor group, String member, Set<String> topics, List<TopicPartition> owned) {
        if (!(group instanceof StickyAssignor)) {
            return null;
        }
        var own = new StickyAssignor();
        own.onAssignment(new Assignment(owned), new ConsumerGroupMetadata("group", GENERATION, member, Optional.empty()));
        return own.subscriptionUserData(topics);
    }

    static Cluster cluster(Map<String, Integer> topics) {
        Node[] replicas = {new Node(0, "localhost", 9092)};
        List<PartitionInfo> partitions = new ArrayList<>();
        topics.forEach((topic, count) -> {
            for (int number = 0; number < count; number++) {
                partitions.add(new PartitionInfo(topic, number, replicas[0], replicas, replicas));
            }
        });
        return new Cluster("cluster", List.of(replicas), partitions, Set.of(), Set.of());
    }

    static List<String> words(String joined) {
        return joined.equals("-") ? List.of() : List.of(joined.split(","));
    }
}
