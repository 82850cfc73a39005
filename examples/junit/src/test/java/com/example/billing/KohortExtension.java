package com.example.billing;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.extension.AfterEachCallback;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.ExtensionContext;

/**
 * Starts {@code kohort serve --test} for each test, and asks it for what the test needs. Copy this file into your project:
 *
 * <pre>
 *   &#64;RegisterExtension
 *   final KohortExtension kohort = new KohortExtension("num.partitions=6");
 * </pre>
 *
 * The command is looked for on the PATH; the environment variable KOHORT can name another one. All controls are in
 * docs/test-control.openapi.yaml: get and post reach those that have no method of their own here.
 */
public final class KohortExtension implements BeforeEachCallback, AfterEachCallback {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final HttpClient HTTP = HttpClient.newHttpClient();

    private final String[] settings;
    private Process process;
    private JsonNode addresses;

    /** Settings are Kafka's, for instance "num.partitions=6". */
    public KohortExtension(String... settings) {
        this.settings = settings;
    }

    @Override
    public void beforeEach(ExtensionContext context) throws IOException {
        List<String> command = new ArrayList<>();
        command.add(System.getenv().getOrDefault("KOHORT", "kohort"));
        command.addAll(List.of("serve", "--test", "--print-json", "--stop-with-stdin", "--log-level", "warning"));
        Stream.of(settings).forEach(setting -> command.addAll(List.of("--override", setting)));
        process = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
        var output = new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8));
        String line = output.readLine();
        if (line == null) {
            throw new IOException(String.join(" ", command) + " has ended");
        }
        addresses = JSON.readTree(line);
    }

    @Override
    public void afterEach(ExtensionContext context) throws Exception {
        process.getOutputStream().close(); // the broker stops when its standard input ends, also if this JVM is killed
        process.waitFor();
    }

    public String bootstrapServers() {
        return addresses.get("bootstrap_servers").asText();
    }

    // --- topics

    public void createTopic(String topic, int partitions) {
        post("/test/topics", Map.of("topic", topic, "partitions", partitions));
    }

    public void produce(String topic, String... values) {
        var records = Stream.of(values).map(value -> Map.of("value", value)).toList();
        post("/test/topics/" + encoded(topic) + "/records", Map.of("records", records));
    }

    // --- groups

    public JsonNode group(String group) {
        return get("/test/groups/" + encoded(group));
    }

    public List<JsonNode> commits(String group) {
        return list(get("/test/groups/" + encoded(group) + "/commits").get("commits"));
    }

    /** The offset that the group has committed, or -1. */
    public long committed(String group, String topic, int partition) {
        return group(group).path("committed").path(topic).path(String.valueOf(partition)).asLong(-1);
    }

    public void rebalance(String group, String reason) {
        post("/test/groups/" + encoded(group) + "/rebalance", Map.of("reason", reason));
    }

    public void expire(String group, String memberId) {
        post("/test/groups/" + encoded(group) + "/expire", Map.of("member_id", memberId));
    }

    // --- faults

    public void fault(Map<String, Object> fault) {
        post("/test/faults", fault);
    }

    // --- everything else

    public JsonNode get(String path) {
        return ask(request(path).GET().build());
    }

    public JsonNode post(String path, Map<String, ?> body) {
        var sent = BodyPublishers.ofString(JSON.valueToTree(body).toString());
        return ask(request(path).header("Content-Type", "application/json").POST(sent).build());
    }

    private HttpRequest.Builder request(String path) {
        return HttpRequest.newBuilder(URI.create(addresses.get("http").asText() + path));
    }

    private static JsonNode ask(HttpRequest request) {
        try {
            HttpResponse<String> answer = HTTP.send(request, BodyHandlers.ofString());
            JsonNode found = JSON.readTree(answer.body());
            if (answer.statusCode() >= 400) {
                throw new IllegalStateException(request.uri() + ": " + found.path("error").asText());
            }
            return found;
        } catch (IOException problem) {
            throw new UncheckedIOException(problem);
        } catch (InterruptedException problem) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException(problem);
        }
    }

    private static List<JsonNode> list(JsonNode array) {
        List<JsonNode> found = new ArrayList<>();
        array.forEach(found::add);
        return found;
    }

    private static String encoded(String name) {
        return URLEncoder.encode(name, StandardCharsets.UTF_8).replace("+", "%20");
    }
}
