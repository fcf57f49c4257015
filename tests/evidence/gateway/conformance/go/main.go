// Command clients sends mutations and records by a Go client, and writes its observations as lines of JSON.
//
// Arguments: LIBRARY NAME ADDRESS FIRST_USER.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"
)

const timeLimit = 60 * time.Second

var began = time.Now()

// Library is a client of one user.
type library interface {
	list(ctx context.Context) error
	create(ctx context.Context, topic string, partitions int) error
	grow(ctx context.Context, topic string, partitions int) error
	remove(ctx context.Context, topic string) error
	produce(ctx context.Context, topic, value string) error
	fetch(ctx context.Context, topic string) (string, error)
	// Throttle returns the longest throttle time that was reported since the last call; nil if there is none to see.
	throttle() *int64
}

type connector func(address, user, password string) library

var connectors = map[string]connector{"sarama": connectSarama, "kafka-go": connectKafkaGo}

type client struct {
	library
	name string
}

func (c client) observe(step string, request func(context.Context) error) {
	c.show(step, func(ctx context.Context) (string, error) { return "ok", request(ctx) })
}

func (c client) show(step string, request func(context.Context) (string, error)) {
	ctx, cancel := context.WithTimeout(context.Background(), timeLimit)
	defer cancel()
	sent := milliseconds()
	seen, err := request(ctx)
	received := milliseconds()
	if err != nil {
		seen = err.Error()
	}
	line, err := json.Marshal(map[string]any{
		"case": c.name, "step": step, "seen": seen, "sent": sent, "received": received, "throttle_ms": c.throttle(),
	})
	if err != nil {
		panic(err)
	}
	fmt.Println(string(line))
}

func milliseconds() float64 { return float64(time.Since(began).Microseconds()) / 1000 }

func main() {
	library, side, address := os.Args[1], os.Args[2], os.Args[3]
	first, err := strconv.Atoi(os.Args[4])
	if err != nil {
		panic(err)
	}
	connect := func(user int, name string) client {
		who := fmt.Sprintf("%s-%03d", side, first+user)
		c := client{connectors[library](address, who, who+"-secret"), name}
		c.observe("connect", c.list)
		return c
	}
	topic := func(name string) string { return side + "-" + library + "-" + name }
	plays := []func(){
		func() {
			c := connect(0, "create")
			c.observe("overdrawn by 8", func(ctx context.Context) error { return c.create(ctx, topic("a"), 11) })
			c.observe("in debt", func(ctx context.Context) error { return c.create(ctx, topic("b"), 1) })
			c.observe("another call of this client", c.list)
			c.observe("when it is paid off", func(ctx context.Context) error { return c.create(ctx, topic("b"), 1) })
			c.observe("exists", func(ctx context.Context) error { return c.create(ctx, topic("a"), 1) })
		},
		func() {
			c := connect(1, "grow")
			c.observe("overdrawn by 8", func(ctx context.Context) error { return c.grow(ctx, topic("grown-a"), 12) })
			c.observe("in debt", func(ctx context.Context) error { return c.grow(ctx, topic("grown-b"), 2) })
		},
		func() {
			c := connect(2, "delete")
			c.observe("overdrawn by 8", func(ctx context.Context) error { return c.remove(ctx, topic("deleted-a")) })
			c.observe("in debt", func(ctx context.Context) error { return c.remove(ctx, topic("deleted-b")) })
			c.observe("unknown", func(ctx context.Context) error { return c.remove(ctx, topic("none")) })
		},
		func() {
			c := connect(3, "records")
			c.observe("produce", func(ctx context.Context) error { return c.produce(ctx, topic("data"), "hello") })
			c.show("fetch", func(ctx context.Context) (string, error) { return c.fetch(ctx, topic("data")) })
		},
	}
	var all sync.WaitGroup
	for _, play := range plays {
		all.Go(play)
	}
	all.Wait()
}
