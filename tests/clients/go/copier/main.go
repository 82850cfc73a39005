// Copies records exactly once with franz-go; arguments and topics as in tests/clients/transactions/copier.py.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	bootstrap, group, protocol, name := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	ctx := context.Background()
	options := []kgo.Opt{
		kgo.SeedBrokers(bootstrap),
		kgo.ClientID(name),
		kgo.TransactionalID(name),
		kgo.TransactionTimeout(10 * time.Second),
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics("originals"),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.RequireStableFetchOffsets(),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(0),
		kgo.Balancers(kgo.RangeBalancer()),
	}
	if protocol == "consumer" {
		options = append(options, kgo.ServerSideBalancer())
	} else {
		options = append(options, kgo.SessionTimeout(6*time.Second), kgo.HeartbeatInterval(500*time.Millisecond))
	}
	session, err := kgo.NewGroupTransactSession(options...)
	if err != nil {
		panic(err)
	}
	for {
		copySome(ctx, session)
	}
}

func copySome(ctx context.Context, session *kgo.GroupTransactSession) {
	found := session.PollRecords(ctx, 50)
	found.EachError(func(_ string, _ int32, err error) { say(err) })
	if found.NumRecords() == 0 {
		return
	}
	if err := session.Begin(); err != nil {
		fail(err)
	}
	failed := kgo.AbortingFirstErrPromise(session.Client())
	found.EachRecord(func(record *kgo.Record) {
		value := fmt.Appendf(nil, "%d:%d", record.Partition, record.Offset)
		session.Produce(ctx, &kgo.Record{Topic: "copies", Partition: record.Partition, Value: value}, failed.Promise())
	})
	problem := failed.Err()
	if problem != nil {
		say(problem)
	}
	committed, err := session.End(ctx, kgo.TransactionEndTry(problem == nil))
	switch {
	case err != nil:
		fail(err)
	case !committed:
		fmt.Println("trouble not committed") // the session has gone back to what is committed
	}
}

func say(err error) {
	fmt.Println("trouble", strings.ReplaceAll(err.Error(), "\n", " "))
}

// fail ends the program: whoever supervises it starts it again.
func fail(err error) {
	say(err)
	os.Exit(3)
}
