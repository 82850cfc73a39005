// kafka-consumer-groups, many times in one JVM: a line of arguments in, what the tool prints out, then a line "done".

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import org.apache.kafka.common.utils.Exit;
import org.apache.kafka.tools.consumer.group.ConsumerGroupCommand;

public class ConsumerGroupTool {
    public static void main(String[] none) throws Exception {
        Exit.setExitProcedure((status, message) -> { throw new IllegalStateException("exit status " + status); });
        System.setErr(System.out);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            try {
                ConsumerGroupCommand.main(line.split("\u001f"));
            } catch (IllegalStateException problem) {
                System.out.println(problem.getMessage());
            }
            System.out.println("\u001fdone");
            System.out.flush();
        }
    }
}
