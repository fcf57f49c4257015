package main

import (
	"context"

	"github.com/IBM/sarama"
)

type saramaClient struct {
	client sarama.Client
	admin  sarama.ClusterAdmin
}

func connectSarama(address, user, password string) library {
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.Net.SASL.Enable = true
	config.Net.SASL.User, config.Net.SASL.Password = user, password
	config.Net.ReadTimeout, config.Admin.Timeout = timeLimit, timeLimit
	config.Producer.Return.Successes = true
	client, err := sarama.NewClient([]string{address}, config)
	if err != nil {
		panic(err)
	}
	admin, err := sarama.NewClusterAdminFromClient(client)
	if err != nil {
		panic(err)
	}
	return &saramaClient{client, admin}
}

func (s *saramaClient) throttle() *int64 { return nil }

func (s *saramaClient) list(context.Context) error {
	_, _, err := s.admin.DescribeCluster()
	return err
}

func (s *saramaClient) create(_ context.Context, topic string, partitions int) error {
	detail := &sarama.TopicDetail{NumPartitions: int32(partitions), ReplicationFactor: 1}
	return s.admin.CreateTopic(topic, detail, false)
}

func (s *saramaClient) grow(_ context.Context, topic string, partitions int) error {
	return s.admin.CreatePartitions(topic, int32(partitions), nil, false)
}

func (s *saramaClient) remove(_ context.Context, topic string) error {
	return s.admin.DeleteTopic(topic)
}

func (s *saramaClient) produce(_ context.Context, topic, value string) error {
	producer, err := sarama.NewSyncProducerFromClient(s.client)
	if err != nil {
		return err
	}
	_, _, err = producer.SendMessage(&sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder(value)})
	return err
}

func (s *saramaClient) fetch(ctx context.Context, topic string) (string, error) {
	consumer, err := sarama.NewConsumerFromClient(s.client)
	if err != nil {
		return "", err
	}
	partition, err := consumer.ConsumePartition(topic, 0, sarama.OffsetOldest)
	if err != nil {
		return "", err
	}
	select {
	case message := <-partition.Messages():
		return string(message.Value), nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}
