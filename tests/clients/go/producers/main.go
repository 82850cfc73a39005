// Transactional producers with franz-go; commands and answers as in tests/clients/transactions/producer_program.py.
// Offsets are committed by its sessions alone (GroupTransactSession), so there is no command "offsets" here.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

var producers = map[string]*kgo.Client{}

func main() {
	input := bufio.NewScanner(os.Stdin)
	for input.Scan() {
		answer := map[string]any{"ok": true}
		if err := obey(os.Args[1], strings.Fields(input.Text())); err != nil {
			answer = map[string]any{"error": name(err)}
		}
		text, err := json.Marshal(answer)
		if err != nil {
			panic(err)
		}
		fmt.Println(string(text))
	}
}

func name(err error) string {
	var known *kerr.Error
	if errors.As(err, &known) {
		return known.Message
	}
	return err.Error()
}

func obey(bootstrap string, words []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client := producers[words[0]]
	switch words[1] {
	case "open":
		return open(ctx, bootstrap, words[0], words[2], words[3])
	case "begin":
		return client.BeginTransaction()
	case "send":
		partition, err := strconv.Atoi(words[3])
		if err != nil {
			return err
		}
		record := &kgo.Record{Topic: words[2], Partition: int32(partition), Value: []byte(words[4])}
		return client.ProduceSync(ctx, record).FirstErr()
	case "commit":
		return client.EndTransaction(ctx, kgo.TryCommit)
	case "abort":
		return client.EndTransaction(ctx, kgo.TryAbort)
	case "close":
		client.Close()
		return nil
	}
	return errors.New("unknown command " + words[1])
}

func open(ctx context.Context, bootstrap, name, transactionalID, timeoutMs string) error {
	timeout, err := time.ParseDuration(timeoutMs + "ms")
	if err != nil {
		return err
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(bootstrap),
		kgo.ClientID(transactionalID),
		kgo.TransactionalID(transactionalID),
		kgo.TransactionTimeout(timeout),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(0),
	)
	if err != nil {
		return err
	}
	producers[name] = client
	_, _, err = client.ProducerID(ctx) // otherwise the first record asks for it
	return err
}
