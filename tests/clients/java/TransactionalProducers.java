import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringSerializer;

/** Commands and answers as in tests/clients/transactions/producer_program.py. Argument: bootstrap. */
public class TransactionalProducers {
    static final Map<String, KafkaProducer<String, String>> PRODUCERS = new HashMap<>();

    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            try {
                obey(arguments[0], line.split(" "));
                System.out.println("{\"ok\": true}");
            } catch (KafkaException | ExecutionException | IllegalStateException problem) {
                Throwable cause = problem instanceof ExecutionException ? problem.getCause() : problem;
                say(cause);
            }
            System.out.flush();
        }
        System.exit(0); // producers that failed are not closed
    }

    static void say(Throwable problem) {
        Throwable first = problem;
        while (first.getClass() == KafkaException.class && first.getCause() != null) {
            first = first.getCause();
        }
        System.out.println("{\"error\": \"" + first.getClass().getSimpleName() + "\"}");
    }

    static void obey(String bootstrap, String[] words) throws ExecutionException, InterruptedException {
        KafkaProducer<String, String> producer = PRODUCERS.get(words[0]);
        switch (words[1]) {
            case "open" -> open(bootstrap, words[0], words[2], words[3]);
            case "begin" -> producer.beginTransaction();
            case "send" -> producer.send(new ProducerRecord<>(words[2], Integer.valueOf(words[3]), null, words[4])).get();
            case "offsets" -> producer.sendOffsetsToTransaction(
                Map.of(new TopicPartition(words[3], Integer.parseInt(words[4])),
                    new OffsetAndMetadata(Long.parseLong(words[5]))),
                new ConsumerGroupMetadata(words[2]));
            case "commit" -> producer.commitTransaction();
            case "abort" -> producer.abortTransaction();
            case "close" -> producer.close();
            default -> throw new AssertionError(words[1]);
        }
    }

    static void open(String bootstrap, String name, String transactionalId, String timeoutMs) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("transactional.id", transactionalId);
        settings.put("client.id", transactionalId);
        settings.put("transaction.timeout.ms", timeoutMs);
        settings.put("linger.ms", "0");
        settings.put("delivery.timeout.ms", "60000");
        settings.put("request.timeout.ms", "30000");
        KafkaProducer<String, String> producer =
            new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
        PRODUCERS.put(name, producer);
        producer.initTransactions();
    }
}
