package com.example.billing;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.function.BooleanSupplier;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.RegisterExtension;

@Timeout(30)
class BillingTest {
    @RegisterExtension
    final KohortExtension kohort = new KohortExtension();

    final List<String> billed = new ArrayList<>();

    @BeforeEach
    void createTopic() {
        kohort.createTopic("orders", 1);
    }

    @Test
    void aRebalanceDuringProcessingBillsNothingTwice() {
        kohort.produce("orders", "order 1", "order 2", "order 3");
        try (var billing = new Billing(kohort.bootstrapServers(), this::chargeAndRebalance)) {
            billUntil(billing, () -> isStableInGeneration(2));
            kohort.produce("orders", "order 4");
            billUntil(billing, () -> committed() == 4);
        }
        assertEquals(List.of("order 1", "order 2", "order 3", "order 4"), billed);
    }

    void chargeAndRebalance(String order) {
        billed.add(order);
        if (order.equals("order 2")) {
            kohort.rebalance("billing", "somebody deploys");
        }
    }

    @Test
    void aCommitOfAZombieIsRefused() {
        kohort.produce("orders", "order 1");
        try (var zombie = new Billing(kohort.bootstrapServers(), order -> takeOver())) {
            // The zombie goes on where it was. Its commit of order 1 would take the group back to order 2.
            assertThrows(CommitFailedException.class, () -> billUntil(zombie, () -> committed() == 1));
        }
        assertEquals(2, committed());
    }

    /** The broker has not heard from the zombie for too long. Another consumer takes over, and goes on. */
    void takeOver() {
        kohort.expire("billing", kohort.group("billing").at("/members/0/member_id").asText());
        kohort.produce("orders", "order 2");
        try (var other = new Billing(kohort.bootstrapServers(), billed::add)) {
            billUntil(other, () -> committed() == 2);
        }
    }

    @Test
    void aLostAnswerToACommitBillsNothingTwice() {
        kohort.fault(Map.of("kind", "lose_answer", "api", "OffsetCommit", "group", "billing", "times", 1));
        kohort.produce("orders", "order 1");
        try (var billing = new Billing(kohort.bootstrapServers(), billed::add)) {
            billUntil(billing, () -> committed() == 1);
            kohort.produce("orders", "order 2");
            billUntil(billing, () -> committed() == 2);
        }
        assertEquals(List.of("order 1", "order 2"), billed);
        // The first commit was done, its answer lost, and the client sent it again.
        assertEquals(List.of(1, 1, 2), kohort.commits("billing").stream().map(each -> each.get("offset").asInt()).toList());
    }

    boolean isStableInGeneration(int generation) {
        var group = kohort.group("billing");
        return group.get("state").asText().equals("Stable") && group.get("generation").asInt() == generation;
    }

    long committed() {
        return kohort.committed("billing", "orders", 0);
    }

    void billUntil(Billing billing, BooleanSupplier done) {
        do {
            billing.billOnce();
        } while (!done.getAsBoolean());
    }
}
