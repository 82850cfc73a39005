// Reads lines "start known newer", batches as first,last,state,count;... ("-" for none); prints what Kafka's combiner makes of them.
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Collectors;
import org.apache.kafka.coordinator.share.PersisterStateBatchCombiner;
import org.apache.kafka.server.share.persister.PersisterStateBatch;

public class CombineStates {
    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        StringBuilder out = new StringBuilder();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] parts = line.split(" ");
            List<PersisterStateBatch> merged =
                new PersisterStateBatchCombiner(read(parts[1]), read(parts[2]), Long.parseLong(parts[0])).combineStateBatches();
            String text = merged.stream().map(CombineStates::text).collect(Collectors.joining(";"));
            out.append(text.isEmpty() ? "-" : text).append('\n');
        }
        System.out.print(out);
    }

    private static List<PersisterStateBatch> read(String text) {
        List<PersisterStateBatch> batches = new ArrayList<>();
        if (!text.equals("-")) {
            for (String each : text.split(";")) {
                String[] numbers = each.split(",");
                batches.add(new PersisterStateBatch(Long.parseLong(numbers[0]), Long.parseLong(numbers[1]),
                    Byte.parseByte(numbers[2]), Short.parseShort(numbers[3])));
            }
        }
        return batches;
    }

    private static String text(PersisterStateBatch batch) {
        return batch.firstOffset() + "," + batch.lastOffset() + "," + batch.deliveryState() + "," + batch.deliveryCount();
    }
}
