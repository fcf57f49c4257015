// Command franz sends mutations by franz-go, and writes its observations as lines of JSON.
//
// Arguments: NAME ADDRESS FIRST_USER.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
)

const timeLimit = 60 * time.Second

var began = time.Now()

// Told keeps the longest throttle time reported since it was last read.
type told struct {
	mutex    sync.Mutex
	interval time.Duration
}

func (t *told) OnBrokerThrottle(_ kgo.BrokerMetadata, interval time.Duration, _ bool) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.interval = max(t.interval, interval)
}

func (t *told) take() int64 {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	taken := t.interval.Milliseconds()
	t.interval = 0
	return taken
}

type side struct{ name, address string }

func (s side) topic(name string) string { return s.name + "-" + name }

type client struct {
	side
	admin *kadm.Client
	told  *told
	name  string
}

func connect(s side, user int, name string) client {
	who := fmt.Sprintf("%s-%03d", s.name, user)
	hook := &told{}
	kafka, err := kgo.NewClient(
		kgo.SeedBrokers(s.address),
		kgo.SASL(plain.Auth{User: who, Pass: who + "-secret"}.AsMechanism()),
		kgo.WithHooks(hook),
	)
	if err != nil {
		panic(err)
	}
	return client{s, kadm.NewClient(kafka), hook, name}
}

func (c client) observe(step string, request func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeLimit)
	defer cancel()
	sent := milliseconds()
	seen := described(request(ctx))
	received := milliseconds()
	line, err := json.Marshal(map[string]any{
		"case": c.name, "step": step, "seen": seen, "sent": sent, "received": received, "throttle_ms": c.told.take(),
	})
	if err != nil {
		panic(err)
	}
	fmt.Println(string(line))
}

func milliseconds() float64 { return float64(time.Since(began).Microseconds()) / 1000 }

func described(err error) string {
	var known *kerr.Error
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &known):
		return fmt.Sprintf("%d %s", known.Code, known.Message)
	default:
		return err.Error()
	}
}

func (c client) create(ctx context.Context, topic string, partitions int32) error {
	response, err := c.admin.CreateTopic(ctx, partitions, 1, nil, c.topic(topic))
	if err != nil {
		return err
	}
	return response.Err
}

func (c client) grow(ctx context.Context, topic string, partitions int) error {
	responses, err := c.admin.UpdatePartitions(ctx, partitions, c.topic(topic))
	if err != nil {
		return err
	}
	return responses.Error()
}

func (c client) remove(ctx context.Context, topic string) error {
	response, err := c.admin.DeleteTopic(ctx, c.topic(topic))
	if err != nil {
		return err
	}
	return response.Err
}

func (c client) list(ctx context.Context) error {
	_, err := c.admin.BrokerMetadata(ctx)
	return err
}

func main() {
	s := side{os.Args[1], os.Args[2]}
	first, err := strconv.Atoi(os.Args[3])
	if err != nil {
		panic(err)
	}
	plays := []func(int){
		func(user int) {
			c := connect(s, user, "create")
			c.observe("connect", c.list)
			c.observe("overdrawn by 8", func(ctx context.Context) error { return c.create(ctx, "go-a", 11) })
			c.observe("in debt", func(ctx context.Context) error { return c.create(ctx, "go-b", 1) })
			c.observe("another call of this client", c.list)
			c.observe("when it is paid off", func(ctx context.Context) error { return c.create(ctx, "go-b", 1) })
			c.observe("exists", func(ctx context.Context) error { return c.create(ctx, "go-a", 1) })
		},
		func(user int) {
			c := connect(s, user, "grow")
			c.observe("connect", c.list)
			c.observe("overdrawn by 8", func(ctx context.Context) error { return c.grow(ctx, "go-grown-a", 12) })
			c.observe("in debt", func(ctx context.Context) error { return c.grow(ctx, "go-grown-b", 2) })
		},
		func(user int) {
			c := connect(s, user, "delete")
			c.observe("connect", c.list)
			c.observe("overdrawn by 8", func(ctx context.Context) error { return c.remove(ctx, "go-deleted-a") })
			c.observe("in debt", func(ctx context.Context) error { return c.remove(ctx, "go-deleted-b") })
			c.observe("unknown", func(ctx context.Context) error { return c.remove(ctx, "go-none") })
		},
	}
	var all sync.WaitGroup
	for number, play := range plays {
		all.Go(func() { play(first + number) })
	}
	all.Wait()
}
