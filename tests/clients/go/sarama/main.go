// Transactional producers with sarama; commands and answers as in tests/clients/transactions/producer_program.py.
// The second argument is the version of Kafka that it believes to speak to, which decides about the versions of its requests.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/IBM/sarama"
)

var producers = map[string]sarama.SyncProducer{}

func main() {
	version, err := sarama.ParseKafkaVersion(os.Args[2])
	if err != nil {
		panic(err)
	}
	input := bufio.NewScanner(os.Stdin)
	for input.Scan() {
		words := strings.Fields(input.Text())
		answer := map[string]any{"ok": true}
		if err := obey(os.Args[1], version, words); err != nil {
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
	var known sarama.KError
	if errors.As(err, &known) {
		return "error code " + strconv.Itoa(int(known))
	}
	return err.Error()
}

func obey(bootstrap string, version sarama.KafkaVersion, words []string) error {
	producer := producers[words[0]]
	switch words[1] {
	case "open":
		return open(bootstrap, version, words[0], words[2], words[3])
	case "begin":
		return producer.BeginTxn()
	case "send":
		partition, err := strconv.Atoi(words[3])
		if err != nil {
			return err
		}
		message := &sarama.ProducerMessage{Topic: words[2], Partition: int32(partition), Value: sarama.StringEncoder(words[4])}
		_, _, err = producer.SendMessage(message)
		return err
	case "offsets":
		partition, err := strconv.Atoi(words[4])
		if err != nil {
			return err
		}
		offset, err := strconv.ParseInt(words[5], 10, 64)
		if err != nil {
			return err
		}
		row := &sarama.PartitionOffsetMetadata{Partition: int32(partition), Offset: offset}
		return producer.AddOffsetsToTxn(map[string][]*sarama.PartitionOffsetMetadata{words[3]: {row}}, words[2])
	case "commit":
		return producer.CommitTxn()
	case "abort":
		return producer.AbortTxn()
	case "close":
		return producer.Close()
	}
	return errors.New("unknown command " + words[1])
}

func open(bootstrap string, version sarama.KafkaVersion, name, transactionalID, timeoutMs string) error {
	timeout, err := time.ParseDuration(timeoutMs + "ms")
	if err != nil {
		return err
	}
	config := sarama.NewConfig()
	config.Version = version
	config.ClientID = transactionalID
	config.Producer.Transaction.ID = transactionalID
	config.Producer.Transaction.Timeout = timeout
	config.Producer.Idempotent = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Return.Successes = true
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Net.MaxOpenRequests = 1
	producer, err := sarama.NewSyncProducer([]string{bootstrap}, config)
	if err != nil {
		return err
	}
	producers[name] = producer
	return nil
}
