package main

import (
	"context"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl/plain"
)

type kafkaGo struct {
	address string
	dialer  *kafka.Dialer
	client  *kafka.Client
	told    *int64
}

func connectKafkaGo(address, user, password string) library {
	mechanism := plain.Mechanism{Username: user, Password: password}
	dialer := &kafka.Dialer{Timeout: timeLimit, SASLMechanism: mechanism}
	transport := &kafka.Transport{SASL: mechanism}
	return &kafkaGo{address, dialer, &kafka.Client{Addr: kafka.TCP(address), Timeout: timeLimit, Transport: transport}, nil}
}

func (k *kafkaGo) throttle() *int64 {
	taken := k.told
	k.told = nil
	return taken
}

// List asks for the controller as most programs with this library do: by Metadata v1.
func (k *kafkaGo) list(ctx context.Context) error {
	connection, err := k.dialer.DialContext(ctx, "tcp", k.address)
	if err != nil {
		return err
	}
	defer connection.Close()
	_, err = connection.Controller()
	return err
}

func (k *kafkaGo) create(ctx context.Context, topic string, partitions int) error {
	configs := []kafka.TopicConfig{{Topic: topic, NumPartitions: partitions, ReplicationFactor: 1}}
	response, err := k.client.CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: configs})
	if err != nil {
		return err
	}
	k.tell(response.Throttle.Milliseconds())
	return response.Errors[topic]
}

func (k *kafkaGo) grow(ctx context.Context, topic string, partitions int) error {
	configs := []kafka.TopicPartitionsConfig{{Name: topic, Count: int32(partitions)}}
	response, err := k.client.CreatePartitions(ctx, &kafka.CreatePartitionsRequest{Topics: configs})
	if err != nil {
		return err
	}
	k.tell(response.Throttle.Milliseconds())
	return response.Errors[topic]
}

func (k *kafkaGo) remove(ctx context.Context, topic string) error {
	response, err := k.client.DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: []string{topic}})
	if err != nil {
		return err
	}
	k.tell(response.Throttle.Milliseconds())
	return response.Errors[topic]
}

func (k *kafkaGo) tell(milliseconds int64) { k.told = &milliseconds }

func (k *kafkaGo) produce(ctx context.Context, topic, value string) error {
	writer := &kafka.Writer{Addr: k.client.Addr, Topic: topic, Transport: k.client.Transport, BatchSize: 1}
	defer writer.Close()
	return writer.WriteMessages(ctx, kafka.Message{Value: []byte(value)})
}

func (k *kafkaGo) fetch(ctx context.Context, topic string) (string, error) {
	reader := kafka.NewReader(kafka.ReaderConfig{Brokers: []string{k.address}, Topic: topic, Dialer: k.dialer})
	defer reader.Close()
	message, err := reader.ReadMessage(ctx)
	return string(message.Value), err
}
