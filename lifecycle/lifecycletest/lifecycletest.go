// Package lifecycletest has a lifecycle for the tests of tables and of what is derived from them.
package lifecycletest

import "github.com/stagepost/stagepost/lifecycle"

// Order returns the stages of a valid table in which each rule applies somewhere: the life of an order in a shop.
func Order() []lifecycle.Stage {
	return []lifecycle.Stage{
		lifecycle.OnQueue("Open", "A customer brings it here; a packer takes it.",
			lifecycle.OnPass("begin", "Packing", lifecycle.Worker, "A packer is free."),
			lifecycle.On("hold", "Held", lifecycle.Operator, "The shop is closed."),
		).Bounded("a packer who cannot begin asks a person"),
		lifecycle.OnWait("Held", "The shop brings it here and releases it.",
			lifecycle.On("release", "Open", lifecycle.Operator, "The shop is open again."),
		),
		lifecycle.OnWork("Packing", "A packer collects the goods.",
			lifecycle.OnPass("finish", "Sent", lifecycle.Worker, "The parcel is complete."),
			lifecycle.OnFail("fail", "Broken", lifecycle.Worker|lifecycle.Timer, "Something is missing."),
			lifecycle.On("again", "Open", lifecycle.Worker, "The packer is called away.").Within("packers"),
		),
		lifecycle.OnEnd("Sent", lifecycle.OK, "The carrier has it."),
		lifecycle.OnEnd("Broken", lifecycle.Failed, "A person has to check it.",
			lifecycle.OnReenter("retry", lifecycle.Operator, "The goods are there now.", "Packing"),
			lifecycle.On("delete", "Gone", lifecycle.Operator|lifecycle.Timer, "It is not needed any more."),
		),
		lifecycle.OnEnd("Gone", lifecycle.None, "Only the number is left."),
	}
}

// Shop returns the table of these stages.
func Shop() *lifecycle.Table { return lifecycle.Must("shop.order", Order()...) }
