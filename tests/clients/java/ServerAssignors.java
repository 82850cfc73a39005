import java.io.*;
import java.util.*;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.coordinator.group.api.assignor.*;
import org.apache.kafka.coordinator.group.assignor.*;
import org.apache.kafka.coordinator.group.modern.*;
import org.apache.kafka.timeline.*;

/**
 * Assigns groups from standard input with the assignors of Kafka's coordinator, in lines:
 *
 *   topic ID COUNT | member ID INSTANCE TOPICS TARGET | uniform equal, uniform unequal, range equal, range unequal
 *   simple equal, simple unequal           the same for share groups, whose partitions are all initialized but for
 *   not ID PARTITION                       these
 *   put KEY | remove KEY | keys            the keys of a TimelineHashMap, in its order
 *
 * TOPICS are ids with commas between them, a TARGET is ID:0,1,2/ID:..., and - is nothing.
 */
public class ServerAssignors {
    static Map<Uuid, Integer> counts = new HashMap<>();
    static Map<String, MemberSubscriptionAndAssignmentImpl> members = new HashMap<>();
    static Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
    static Map<Uuid, Set<Integer>> notInitialized = new HashMap<>();
    static TimelineHashMap<String, String> keys = emptyKeys();

    public static void main(String[] arguments) throws IOException {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        PrintStream out = new PrintStream(new BufferedOutputStream(System.out), false, "UTF-8");
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            switch (words[0]) {
                case "topic" -> counts.put(Uuid.fromString(words[1]), Integer.parseInt(words[2]));
                case "member" -> add(words[1], words[2], words[3], words[4]);
                case "not" -> notInitialized.computeIfAbsent(Uuid.fromString(words[1]), id -> new HashSet<>()).add(Integer.parseInt(words[2]));
                case "put" -> keys.put(words[1], "");
                case "remove" -> keys.remove(words[1]);
                case "keys" -> {
                    out.println(String.join(" ", keys.keySet()));
                    keys = emptyKeys();
                }
                default -> {
                    out.println(assign(words[0], words[1]));
                    counts = new HashMap<>();
                    members = new HashMap<>(); // a map that was cleared would keep its size, and with it its order
                    owners = new HashMap<>();
                    notInitialized = new HashMap<>();
                }
            }
        }
        out.flush();
    }

    static TimelineHashMap<String, String> emptyKeys() {
        return new TimelineHashMap<>(new SnapshotRegistry(new LogContext()), 0);
    }

    static void add(String member, String instance, String topics, String target) {
        Set<Uuid> subscribed = new LinkedHashSet<>();
        for (String topic : parts(topics, ",")) subscribed.add(Uuid.fromString(topic));
        Map<Uuid, Set<Integer>> before = new HashMap<>();
        for (String each : parts(target, "/")) {
            Uuid topic = Uuid.fromString(each.split(":")[0]);
            List<Integer> partitions = new ArrayList<>();
            if (!each.endsWith(":")) // else it is a topic without partitions
                for (String partition : each.split(":")[1].split(",")) partitions.add(Integer.parseInt(partition));
            before.put(topic, new HashSet<>(partitions));
            for (int partition : partitions) owners.computeIfAbsent(topic, id -> new HashMap<>()).put(partition, member);
        }
        Optional<String> name = instance.equals("-") ? Optional.empty() : Optional.of(instance);
        members.put(member, new MemberSubscriptionAndAssignmentImpl(Optional.empty(), name, subscribed, new Assignment(before)));
    }

    static List<String> parts(String text, String between) {
        return text.equals("-") ? List.of() : List.of(text.split(between));
    }

    /** MEMBER TARGET MEMBER TARGET ... in the order in which the assignor went through them. */
    static String assign(String name, String subscriptions) {
        PartitionAssignor assignor = switch (name) {
            case "range" -> new RangeAssignor();
            case "simple" -> new SimpleAssignor();
            default -> new UniformAssignor();
        };
        SubscriptionType type = subscriptions.equals("equal") ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS;
        GroupAssignment made = assignor.assign(spec(name, type), topics());
        List<String> words = new ArrayList<>();
        for (String member : members.keySet()) {
            MemberAssignment assignment = made.members().get(member);
            List<String> target = new ArrayList<>();
            if (assignment != null) assignment.partitions().forEach((topic, partitions) -> {
                List<String> numbers = new ArrayList<>();
                for (int partition : partitions) numbers.add(Integer.toString(partition));
                target.add(topic + ":" + String.join(",", numbers));
            });
            words.add(member);
            words.add(target.isEmpty() ? "-" : String.join("/", target));
        }
        return String.join(" ", words);
    }

    static GroupSpec spec(String name, SubscriptionType type) {
        Map<String, MemberSubscriptionAndAssignmentImpl> all = Collections.unmodifiableMap(members);
        if (!name.equals("simple")) return new GroupSpecImpl(all, type, owners);
        Map<Uuid, Set<Integer>> initialized = new HashMap<>();
        counts.forEach((topic, count) -> {
            Set<Integer> partitions = new HashSet<>();
            for (int each = 0; each < count; each++) partitions.add(each);
            partitions.removeAll(notInitialized.getOrDefault(topic, Set.of()));
            initialized.put(topic, partitions);
        });
        return new GroupSpecImpl(all, type, owners, Optional.of(initialized));
    }

    static SubscribedTopicDescriber topics() {
        return new SubscribedTopicDescriber() {
            public int numPartitions(Uuid topic) {
                return counts.getOrDefault(topic, -1);
            }

            public Set<String> racksForPartition(Uuid topic, int partition) {
                return Set.of();
            }
        };
    }
}
