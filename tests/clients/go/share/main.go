// Members of a share group with franz-go; arguments and lines as in tests/clients/share_member.py.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"
	_ "unsafe" // for go:linkname

	"github.com/twmb/franz-go/pkg/kgo"
)

var output sync.Mutex

// What becomes of records whose offsets end in 3; the others are accepted.
var bad = map[string]kgo.AckStatus{"explicit": kgo.AckAccept, "release": kgo.AckRelease, "reject": kgo.AckReject}

// nanotime reads the monotonic clock that other processes read, too; package time shows only differences of it.
//
//go:linkname nanotime runtime.nanotime
func nanotime() int64

type member struct {
	name, kind string
	client     *kgo.Client
	lock       sync.Mutex
	failed     map[int32]error // of the acknowledgements that are being sent, by partition
}

func (m *member) say(event string, more map[string]any) {
	line := map[string]any{"member": m.name, "event": event, "at": float64(nanotime()) / 1e9}
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
	bootstrap, topic, group := os.Args[1], os.Args[2], os.Args[3]
	closing, done := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for _, spec := range os.Args[4:] {
		name, kind, _ := strings.Cut(spec, "=")
		m := newMember(bootstrap, topic, group, name, kind)
		running.Go(func() { m.run(closing) })
	}
	input := bufio.NewScanner(os.Stdin)
	for input.Scan() && input.Text() != "close" {
	}
	done()
	running.Wait()
}

func newMember(bootstrap, topic, group, name, kind string) *member {
	m := &member{name: name, kind: kind, failed: map[int32]error{}}
	var err error
	m.client, err = kgo.NewClient(
		kgo.SeedBrokers(bootstrap),
		kgo.ClientID(name),
		kgo.WithLogger(kgo.BasicLogger(os.Stderr, kgo.LogLevelInfo, nil)),
		kgo.ShareGroup(group),
		kgo.ShareMaxRecords(100),
		kgo.ConsumeTopics(topic),
		kgo.FetchMaxWait(500*time.Millisecond),
		kgo.ShareAckCallback(m.answered),
	)
	if err != nil {
		panic(err)
	}
	return m
}

func (m *member) answered(_ *kgo.Client, results kgo.ShareAckResults) {
	m.lock.Lock()
	defer m.lock.Unlock()
	for _, each := range results {
		if each.Err != nil {
			m.failed[each.Partition] = each.Err
		}
	}
}

func (m *member) run(closing context.Context) {
	for closing.Err() == nil {
		soon, cancel := context.WithTimeout(closing, 200*time.Millisecond)
		fetches := m.client.PollFetches(soon) // errors are of a broker that is away: it comes back
		cancel()
		records := fetches.Records()
		if len(records) > 0 {
			m.take(records)
		}
	}
	m.client.Close()
	m.say("closed", nil)
}

// The callback names partitions, not offsets, so each poll's acknowledgements are sent before the next poll.
func (m *member) take(records []*kgo.Record) {
	m.say("got", map[string]any{"ranges": ranges(records)})
	for _, each := range records {
		if string(each.Value) != strconv.FormatInt(each.Offset, 10) {
			m.say("problem", map[string]any{"text": fmt.Sprintf("partition %d offset %d", each.Partition, each.Offset)})
		}
	}
	answers := map[kgo.AckStatus][]*kgo.Record{}
	for _, each := range records {
		answer := kgo.AckAccept
		if each.Offset%10 == 3 {
			answer = bad[m.kind]
		}
		answers[answer] = append(answers[answer], each)
	}
	for answer, those := range answers {
		m.client.MarkAcks(answer, those...)
	}
	flushed, cancel := context.WithTimeout(context.Background(), time.Minute)
	err := m.client.FlushAcks(flushed)
	cancel()
	m.lock.Lock()
	failed := m.failed
	m.failed = map[int32]error{}
	m.lock.Unlock()
	for answer, those := range answers {
		var well, badly []*kgo.Record
		for _, each := range those {
			if err != nil || failed[each.Partition] != nil {
				badly = append(badly, each)
			} else {
				well = append(well, each)
			}
		}
		if len(well) > 0 {
			m.say("said", map[string]any{"kind": answer.String(), "ranges": ranges(well)})
		}
		if len(badly) > 0 {
			text := fmt.Sprint(err, failed)
			m.say("failed", map[string]any{"kind": answer.String(), "ranges": ranges(badly), "text": text})
		}
	}
	time.Sleep(2 * time.Millisecond)
}

func ranges(records []*kgo.Record) [][4]int64 {
	sorted := append([]*kgo.Record{}, records...)
	sort.Slice(sorted, func(i, j int) bool {
		a, b := sorted[i], sorted[j]
		return a.Partition < b.Partition || a.Partition == b.Partition && a.Offset < b.Offset
	})
	found := [][4]int64{}
	for i, each := range sorted {
		count := int64(each.DeliveryCount())
		if i > 0 && sorted[i-1].Partition == each.Partition && sorted[i-1].Offset == each.Offset-1 &&
			found[len(found)-1][3] == count {
			found[len(found)-1][2] = each.Offset
		} else {
			found = append(found, [4]int64{int64(each.Partition), each.Offset, each.Offset, count})
		}
	}
	return found
}
