package com.example.billing;

import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.StringDeserializer;

/** Bills each order once, and commits the orders that it has billed before it asks for more. */
public final class Billing implements AutoCloseable {
    private static final Map<String, Object> SETTINGS = Map.of(
        "client.id", "billing",
        "group.id", "billing",
        "auto.offset.reset", "earliest",
        "enable.auto.commit", "false",
        "heartbeat.interval.ms", "100",
        "request.timeout.ms", "1000");

    private final KafkaConsumer<String, String> consumer;
    private final Consumer<String> charge;

    /** {@code charge} sends the bill. It may take its time. */
    public Billing(String bootstrapServers, Consumer<String> charge) {
        var settings = new HashMap<>(SETTINGS);
        settings.put("bootstrap.servers", bootstrapServers);
        this.consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
        this.charge = charge;
        consumer.subscribe(List.of("orders"));
    }

    /** Bills the orders that are there now, if any. */
    public void billOnce() {
        for (ConsumerRecord<String, String> order : consumer.poll(Duration.ofMillis(100))) {
            charge.accept(order.value());
        }
        consumer.commitSync();
    }

    @Override
    public void close() {
        consumer.close();
    }
}
