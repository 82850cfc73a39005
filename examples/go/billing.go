// Package billing is a consumer, and shows how it is tested.
package billing

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Billing bills each order once, and commits the orders that it has billed before it lets partitions go.
type Billing struct {
	client *kgo.Client
	charge func(order string)
}

// New makes a consumer. charge sends the bill; it may take its time.
func New(bootstrapServers string, charge func(order string)) (*Billing, error) {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(bootstrapServers),
		kgo.ClientID("billing"),
		kgo.ConsumerGroup("billing"),
		kgo.ConsumeTopics("orders"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.HeartbeatInterval(100*time.Millisecond),
		kgo.RequestTimeoutOverhead(time.Second),
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(), // partitions stay ours until AllowRebalance
	)
	return &Billing{client, charge}, err
}

// Run bills until the context ends or a commit is refused.
func (b *Billing) Run(ctx context.Context) error {
	defer b.client.AllowRebalance()
	for {
		fetches := b.client.PollFetches(ctx)
		if ctx.Err() != nil {
			return nil
		}
		for _, order := range fetches.Records() {
			b.charge(string(order.Value))
		}
		if err := b.client.CommitUncommittedOffsets(ctx); err != nil {
			return err
		}
		b.client.AllowRebalance()
	}
}

// Close leaves the group.
func (b *Billing) Close() {
	b.client.CloseAllowingRebalance()
}
