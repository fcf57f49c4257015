package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
)

type franz struct {
	options []kgo.Opt
	kafka   *kgo.Client
	admin   *kadm.Client
	mutex   sync.Mutex
	told    time.Duration
}

func connectFranz(address, user, password string) library {
	f := &franz{}
	f.options = []kgo.Opt{
		kgo.SeedBrokers(address),
		kgo.SASL(plain.Auth{User: user, Pass: password}.AsMechanism()),
		kgo.WithHooks(f),
	}
	kafka, err := kgo.NewClient(f.options...)
	if err != nil {
		panic(err)
	}
	f.kafka, f.admin = kafka, kadm.NewClient(kafka)
	return f
}

func (f *franz) OnBrokerThrottle(_ kgo.BrokerMetadata, interval time.Duration, _ bool) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.told = max(f.told, interval)
}

func (f *franz) throttle() *int64 {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	taken := f.told.Milliseconds()
	f.told = 0
	return &taken
}

func (f *franz) list(ctx context.Context) error {
	_, err := f.admin.BrokerMetadata(ctx)
	return err
}

func (f *franz) create(ctx context.Context, topic string, partitions int) error {
	response, err := f.admin.CreateTopic(ctx, int32(partitions), 1, nil, topic)
	return errors.Join(err, response.Err)
}

func (f *franz) grow(ctx context.Context, topic string, partitions int) error {
	responses, err := f.admin.UpdatePartitions(ctx, partitions, topic)
	return errors.Join(err, responses.Error())
}

func (f *franz) remove(ctx context.Context, topic string) error {
	response, err := f.admin.DeleteTopic(ctx, topic)
	return errors.Join(err, response.Err)
}

func (f *franz) produce(ctx context.Context, topic, value string) error {
	return f.kafka.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte(value)}).FirstErr()
}

func (f *franz) fetch(ctx context.Context, topic string) (string, error) {
	start := kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())
	consumer, err := kgo.NewClient(append(f.options, kgo.ConsumeTopics(topic), start)...)
	if err != nil {
		return "", err
	}
	defer consumer.Close()
	fetches := consumer.PollRecords(ctx, 1)
	if err := fetches.Err(); err != nil {
		return "", err
	}
	return string(fetches.Records()[0].Value), nil
}

func (f *franz) described(err error) string {
	if known := (*kerr.Error)(nil); errors.As(err, &known) {
		return fmt.Sprintf("%d %s", known.Code, known.Message)
	}
	return err.Error()
}
