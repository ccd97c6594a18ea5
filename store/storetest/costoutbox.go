package storetest

import (
	"time"

	"github.com/stagepost/stagepost/job"
)

// costlyOutbox are operations of the outbox. All messages are due and have one topic.
var costlyOutbox = []costing{
	{name: "a page of messages", run: costMessages(job.MessageQuery{}, 20)},
	{name: "pending messages", run: costMessages(job.MessageQuery{Settled: new(job.Pending)}, 20)},
	{name: "pending messages of a topic", run: costMessages(job.MessageQuery{Settled: new(job.Pending), Topic: "mail"},
		20)},
	{name: "pending messages of a topic without any",
		run: costMessages(job.MessageQuery{Settled: new(job.Pending), Topic: "rare"}, 0)},
	{name: "delivered messages, of which there are none",
		run: costMessages(job.MessageQuery{Settled: new(job.Abandoned)}, 0)},
	{name: "messages of a topic", run: costMessages(job.MessageQuery{Topic: "mail"}, 20)},
	{name: "messages of a topic without any", run: costMessages(job.MessageQuery{Topic: "rare"}, 0)},
	{name: "take", run: func(c *costs, count counting) error { return costTake(c, nil, count, alone) }},
	{name: "take of topics", run: func(c *costs, count counting) error {
		return costTake(c, []string{"mail", "rare"}, count, alone)
	}},
	{name: "take of a topic without messages", run: func(c *costs, count counting) error {
		return costTakeNone(c, count, false, "rare")
	}},
	{name: "take of other topics than that of all", run: func(c *costs, count counting) error {
		return costTakeNone(c, count, true, "mail")
	}},
	{name: "settle", run: func(c *costs, count counting) error { return costTake(c, nil, alone, count) }},
}

func costMessages(q job.MessageQuery, want int) func(*costs, counting) error {
	q.Limit = 20
	return func(c *costs, count counting) error {
		return count(func() error {
			got, err := c.st.Messages(c.ctx, q)
			return gives(len(got), want, err)
		})
	}
}

// costTake takes messages and settles them; they are due again, after all others.
func costTake(c *costs, topics []string, take, settle counting) error {
	var got []job.Message
	err := take(func() (err error) {
		got, err = c.st.Take(c.ctx, job.Taking{N: 5, Topics: topics, Lease: time.Hour, Now: c.tick()})
		return gives(len(got), 5, err)
	})
	if err != nil {
		return err
	}
	for i := range got {
		got[i].Due, got[i].Error = c.clock, "busy"
	}
	return settle(func() error { return c.st.Settle(c.ctx, got...) })
}

func costTakeNone(c *costs, count counting, others bool, topics ...string) error {
	return count(func() error {
		got, err := c.st.Take(c.ctx, job.Taking{N: 5, Topics: topics, Others: others, Lease: time.Hour, Now: c.tick()})
		return gives(len(got), 0, err)
	})
}
