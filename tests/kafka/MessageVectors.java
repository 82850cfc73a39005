// Reads lines "name version json" and prints the bytes that Kafka's own classes give each message, in base64.
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

public class MessageVectors {
    private static final String[] PLACES = {
        "org.apache.kafka.common.message.%sData", "org.apache.kafka.common.message.%s",
        "org.apache.kafka.coordinator.group.generated.%s", "org.apache.kafka.coordinator.share.generated.%s",
        "org.apache.kafka.coordinator.transaction.generated.%s"};
    private static final Map<String, Method> READERS = new HashMap<>();

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        ObjectMapper mapper = new ObjectMapper();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] parts = line.split(" ", 3);
            short version = Short.parseShort(parts[1]);
            JsonNode json = mapper.readTree(parts[2]);
            Message message = (Message) reader(parts[0]).invoke(null, json, version);
            out.println(Base64.getEncoder().encodeToString(bytes(message, version)));
        }
        out.flush();
    }

    private static Method reader(String name) throws Exception {
        if (!READERS.containsKey(name)) {
            for (String place : PLACES) {
                try {
                    Class<?> converter = Class.forName(String.format(place, name) + "JsonConverter");
                    READERS.put(name, converter.getMethod("read", JsonNode.class, short.class));
                    break;
                } catch (ClassNotFoundException absent) {
                    continue;
                }
            }
        }
        return READERS.get(name);
    }

    private static byte[] bytes(Message message, short version) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer buffer = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(buffer), cache, version);
        return buffer.array();
    }
}
