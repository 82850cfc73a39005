package billing

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
)

// ledger is what was billed; the consumer adds to it while the test looks at it.
type ledger struct {
	mutex  sync.Mutex
	orders []string
}

func (l *ledger) add(order string) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.orders = append(l.orders, order)
}

func (l *ledger) all() []string {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return slices.Clone(l.orders)
}

// start runs a consumer until the test ends. What Run returns comes through the channel.
func start(t *testing.T, kohort *Kohort, charge func(order string)) <-chan error {
	t.Helper()
	billing, err := New(kohort.BootstrapServers, charge)
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	var running sync.WaitGroup
	running.Go(func() { ended <- billing.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
		billing.Close()
	})
	return ended
}

func committed(offset int) JSON {
	return JSON{"committed": JSON{"orders": JSON{"0": offset}}}
}

func TestARebalanceDuringProcessingBillsNothingTwice(t *testing.T) {
	kohort := StartKohort(t)
	kohort.CreateTopic("orders", 1)
	kohort.Produce("orders", "order 1", "order 2", "order 3")
	var billed ledger
	start(t, kohort, func(order string) {
		billed.add(order)
		if order == "order 2" {
			kohort.Rebalance("billing", "somebody deploys")
		}
	})
	kohort.Wait("billing", JSON{"state": "Stable", "rebalances": 2})
	kohort.Produce("orders", "order 4")
	kohort.Wait("billing", committed(4))
	if found := billed.all(); !slices.Equal(found, []string{"order 1", "order 2", "order 3", "order 4"}) {
		t.Errorf("billed %q", found)
	}
}

func TestACommitOfAZombieIsRefused(t *testing.T) {
	kohort := StartKohort(t)
	kohort.CreateTopic("orders", 1)
	kohort.Produce("orders", "order 1")
	isBilling, pause := make(chan struct{}, 1), make(chan struct{})
	ended := start(t, kohort, func(string) {
		isBilling <- struct{}{}
		<-pause
	})
	<-isBilling
	zombie := kohort.Group("billing").Members[0]

	// The broker has not heard from the zombie for too long. Another consumer takes over, and goes on.
	kohort.Expire("billing", zombie.MemberID)
	start(t, kohort, func(string) {})
	kohort.Produce("orders", "order 2")
	kohort.Wait("billing", committed(2))

	// Now the zombie goes on where it was. Its commit of order 1 would take the group back to order 2.
	close(pause)
	if err := <-ended; !errors.Is(err, kerr.UnknownMemberID) {
		t.Errorf("the commit ended with %v", err)
	}
	if offset := kohort.Group("billing").Committed["orders"]["0"]; offset != 2 {
		t.Errorf("offset %d is committed", offset)
	}
}

func TestALostAnswerToACommitBillsNothingTwice(t *testing.T) {
	kohort := StartKohort(t)
	kohort.CreateTopic("orders", 1)
	kohort.Fault(JSON{"kind": "lose_answer", "api": "OffsetCommit", "group": "billing", "times": 1})
	kohort.Produce("orders", "order 1")
	var billed ledger
	start(t, kohort, billed.add)
	kohort.Wait("billing", committed(1))
	kohort.Produce("orders", "order 2")
	kohort.Wait("billing", committed(2))
	if found := billed.all(); !slices.Equal(found, []string{"order 1", "order 2"}) {
		t.Errorf("billed %q", found)
	}
	var offsets []int64
	for _, commit := range kohort.Commits("billing") {
		offsets = append(offsets, commit.Offset)
	}
	// The first commit was done, its answer lost, and the client sent it again.
	if !slices.Equal(offsets, []int64{1, 1, 2}) {
		t.Errorf("committed %d", offsets)
	}
}
