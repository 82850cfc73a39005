// A member of each of its groups with franz-go; arguments and lines as in tests/clients/group_member.py.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
	_ "unsafe" // for go:linkname

	"github.com/twmb/franz-go/pkg/kgo"
)

var balancers = map[string]kgo.GroupBalancer{
	"range":              kgo.RangeBalancer(),
	"roundrobin":         kgo.RoundRobinBalancer(),
	"sticky":             kgo.StickyBalancer(),
	"cooperative-sticky": kgo.CooperativeStickyBalancer(),
	"consumer":           kgo.StickyBalancer(), // with ServerSideBalancer: the broker's uniform assignor
	"consumer-range":     kgo.RangeBalancer(),
	"consumer-regex":     kgo.StickyBalancer(),
}

var output sync.Mutex
var work time.Duration // on what one poll returned

// nanotime reads the monotonic clock that other processes read, too; package time shows only differences of it.
//
//go:linkname nanotime runtime.nanotime
func nanotime() int64

type member struct {
	group  string
	client *kgo.Client
}

func (m *member) say(event string, more map[string]any) {
	line := map[string]any{"group": m.group, "event": event, "at": float64(nanotime()) / 1e9}
	for name, value := range more {
		line[name] = value
	}
	text, err := json.Marshal(line)
	if err != nil {
		panic(err)
	}
	output.Lock()
	defer output.Unlock()
	fmt.Println(string(text))
}

func main() {
	bootstrap, topic := os.Args[1], os.Args[2]
	sessionMs, err := strconv.Atoi(os.Args[3])
	if err != nil {
		panic(err)
	}
	if told, err := strconv.Atoi(os.Getenv("KOHORT_TEST_WORK_MS")); err == nil {
		work = time.Duration(told) * time.Millisecond
	}
	closing, done := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for _, spec := range os.Args[4:] {
		m := newMember(bootstrap, topic, time.Duration(sessionMs)*time.Millisecond, strings.Split(spec, "="))
		running.Go(func() { m.run(closing) })
	}
	input := bufio.NewScanner(os.Stdin)
	for input.Scan() && input.Text() != "close" {
	}
	done()
	running.Wait()
}

func newMember(bootstrap, topic string, session time.Duration, spec []string) *member {
	m := &member{group: spec[0]}
	tell := func(event string) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
			m.say(event, map[string]any{"partitions": append([]int32{}, partitions[topic]...)})
		}
	}
	options := []kgo.Opt{
		kgo.SeedBrokers(bootstrap),
		kgo.ClientID("franz-go"),
		kgo.WithLogger(kgo.BasicLogger(os.Stderr, kgo.LogLevelInfo, nil)),
		kgo.ConsumerGroup(m.group),
		kgo.Balancers(balancers[spec[1]]),
		kgo.SessionTimeout(session),
		kgo.HeartbeatInterval(500 * time.Millisecond),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxWait(200 * time.Millisecond),
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsAssigned(tell("assigned")),
		kgo.OnPartitionsRevoked(tell("revoked")),
		kgo.OnPartitionsLost(tell("lost")),
	}
	if strings.HasPrefix(spec[1], "consumer") {
		options = append(options, kgo.ServerSideBalancer())
	}
	if spec[1] == "consumer-regex" {
		options = append(options, kgo.ConsumeRegex(), kgo.ConsumeTopics("^"+topic[:len(topic)-1]+"[a-z]$"))
	} else {
		options = append(options, kgo.ConsumeTopics(topic))
	}
	if len(spec) > 2 {
		options = append(options, kgo.InstanceID(spec[2]))
	}
	var err error
	if m.client, err = kgo.NewClient(options...); err != nil {
		panic(err)
	}
	return m
}

func (m *member) run(closing context.Context) {
	for closing.Err() == nil {
		soon, cancel := context.WithTimeout(closing, 100*time.Millisecond)
		fetches := m.client.PollFetches(soon) // errors are of a broker that is away: it comes back
		cancel()
		if m.consumed(fetches) {
			m.commit()
		}
		m.client.AllowRebalance()
	}
	m.client.Close() // leaves, unless the member is static
	m.say("closed", nil)
}

func (m *member) consumed(fetches kgo.Fetches) bool {
	ranges := [][3]int64{}
	fetches.EachPartition(func(p kgo.FetchTopicPartition) {
		for i, record := range p.Records {
			if string(record.Value) != strconv.FormatInt(record.Offset, 10) {
				m.say("problem", map[string]any{"text": fmt.Sprintf("partition %d offset %d", p.Partition, record.Offset)})
			}
			if i > 0 && p.Records[i-1].Offset == record.Offset-1 {
				ranges[len(ranges)-1][2] = record.Offset
			} else {
				ranges = append(ranges, [3]int64{int64(p.Partition), record.Offset, record.Offset})
			}
		}
	})
	if len(ranges) > 0 {
		m.say("consumed", map[string]any{"ranges": ranges})
		time.Sleep(work)
	}
	return len(ranges) > 0
}

// commit goes on until it is answered: no rebalance comes between, since the poll blocks them.
func (m *member) commit() {
	within, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	uncommitted := m.client.UncommittedOffsets()
	if err := m.client.CommitUncommittedOffsets(within); err != nil {
		m.say("commit_failed", map[string]any{"text": err.Error()})
		return
	}
	offsets := map[string]int64{}
	for _, partitions := range uncommitted {
		for partition, at := range partitions {
			offsets[strconv.Itoa(int(partition))] = at.Offset
		}
	}
	m.say("committed", map[string]any{"offsets": offsets})
}
