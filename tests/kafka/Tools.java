// Kafka's command line tools, many runs in one JVM. A line in: a tool's class and its arguments. Lines out: what the
// tool prints, its exit status if that is not 0, and a line "done".

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.apache.kafka.common.utils.Exit;

public class Tools {
    private static final PrintStream OUT = System.out;
    private static final PrintStream NOWHERE = new PrintStream(OutputStream.nullOutputStream());
    private static int status;

    public static void main(String[] none) throws Exception {
        Exit.setExitProcedure(Tools::exit);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split("\u001f");
            run(words[0], Arrays.copyOfRange(words, 1, words.length));
            OUT.println("\u001fdone");
            OUT.flush();
        }
        System.exit(0);  // tools may leave threads behind
    }

    private static void run(String tool, String[] arguments) throws ReflectiveOperationException {
        status = -1;
        System.setOut(OUT);
        System.setErr(OUT);
        try {
            Class.forName(tool).getMethod("main", String[].class).invoke(null, (Object) arguments);
        } catch (InvocationTargetException ended) {
            if (status < 0) {
                ended.getCause().printStackTrace(OUT);
            }
        }
        if (status > 0) {
            OUT.println("exit status " + status);
        }
    }

    // The tool believes that the process ends here. Some tools catch the exception and complain: nobody hears that.
    private static void exit(int code, String message) {
        if (status < 0) {
            status = code;
            if (message != null) {
                OUT.println(message);
            }
        }
        System.setOut(NOWHERE);
        System.setErr(NOWHERE);
        throw new IllegalStateException("exit status " + code);
    }
}
