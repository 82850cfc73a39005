// The story of tests/clients/story.py with franz-go. Arguments: bootstrap, startMs.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	records    = 10_000
	partitions = 3
	seekRecord = 6_000
)

var (
	bootstrap string
	startMs   int64
)

func main() {
	bootstrap = os.Args[1]
	var err error
	startMs, err = strconv.ParseInt(os.Args[2], 10, 64)
	must(err)
	codecs := []struct {
		name  string
		codec kgo.CompressionCodec
	}{
		{"none", kgo.NoCompression()},
		{"gzip", kgo.GzipCompression()},
		{"snappy", kgo.SnappyCompression()},
		{"lz4", kgo.Lz4Compression()},
		{"zstd", kgo.ZstdCompression()},
	}
	for _, each := range codecs {
		story("go-"+each.name, records, kgo.ProducerBatchCompression(each.codec))
	}
	story("go-idempotent", 3000)
	acks := []struct {
		name string
		acks kgo.Acks
	}{{"0", kgo.NoAck()}, {"1", kgo.LeaderAck()}, {"all", kgo.AllISRAcks()}}
	for _, each := range acks {
		story("go-acks-"+each.name, 3000, kgo.RequiredAcks(each.acks), kgo.DisableIdempotentWrite())
	}
}

func story(topic string, count int, options ...kgo.Opt) {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	client := connect()
	defer client.Close()
	admin := kadm.NewClient(client)
	_, err := admin.CreateTopic(ctx, partitions, 1, nil, topic)
	must(err)

	produce(ctx, topic, count, options)
	consume(ctx, topic, count, make([]int64, partitions))
	if count == records {
		found, err := admin.ListOffsetsAfterMilli(ctx, startMs+seekRecord, topic)
		must(err)
		from := make([]int64, partitions)
		for i := seekRecord; i < seekRecord+partitions; i++ {
			offset, there := found.Lookup(topic, int32(i%partitions))
			check(there && offset.Err == nil && offset.Offset == int64(i/partitions), "offset for the time of record", i)
			from[i%partitions] = offset.Offset
		}
		consume(ctx, topic, count, from)
	}

	_, err = admin.DeleteTopic(ctx, topic)
	must(err)
	listed, err := admin.ListTopics(ctx)
	must(err)
	check(!listed.Has(topic), "the topic is still listed", topic)
	fmt.Println(topic, "ok")
}

func connect(options ...kgo.Opt) *kgo.Client {
	client, err := kgo.NewClient(append(options, kgo.SeedBrokers(bootstrap))...)
	must(err)
	return client
}

func produce(ctx context.Context, topic string, count int, options []kgo.Opt) {
	options = append(options, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(5*time.Millisecond))
	client := connect(options...)
	defer client.Close()
	failures := make(chan error, count)
	for i := range count {
		record := &kgo.Record{
			Topic:     topic,
			Partition: int32(i % partitions),
			Key:       []byte("key-" + strconv.Itoa(i)),
			Value:     []byte(value(i)),
			Timestamp: time.UnixMilli(startMs + int64(i)),
		}
		client.Produce(ctx, record, func(_ *kgo.Record, err error) { failures <- err })
	}
	for range count {
		must(<-failures)
	}
}

// consume reads to the end; next is the offset expected next in each partition.
func consume(ctx context.Context, topic string, count int, next []int64) {
	missing := count
	assigned := map[int32]kgo.Offset{}
	for partition, offset := range next {
		assigned[int32(partition)] = kgo.NewOffset().At(offset)
		missing -= int(offset)
	}
	client := connect(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: assigned}))
	defer client.Close()
	for missing > 0 {
		fetched := client.PollFetches(ctx)
		must(fetched.Err())
		fetched.EachRecord(func(record *kgo.Record) {
			partition := int(record.Partition)
			i := int(record.Offset)*partitions + partition
			check(record.Offset == next[partition], "offset of record", i)
			check(string(record.Key) == "key-"+strconv.Itoa(i), "key of record", i)
			check(string(record.Value) == value(i), "value of record", i)
			check(record.Timestamp.UnixMilli() == startMs+int64(i), "time of record", i)
			next[partition]++
			missing--
		})
	}
	check(missing == 0, "too many records", -missing)
}

func value(i int) string {
	return "value-" + strconv.Itoa(i) + "-" + strings.Repeat("kohort", i%8)
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func check(holds bool, what ...any) {
	if !holds {
		panic(fmt.Sprint(what...))
	}
}
