// Package notation reads lifecycles from text: tables written as YAML, and state diagrams and flowcharts of Mermaid, as
// other documents use them. [Lint] reports faults with line and column, [Compare] the differences of two descriptions
// of one lifecycle.
//
// # YAML
//
// The complete form follows. Queue and work states get the loops lost, wait, backoff and yield, unless loops is false
// or one of their transitions has the same event:
//
//	name: shop.order
//	states:
//	  - state: Open
//	    kind: queue               # queue, work, wait or end; the first state is the start
//	    doc: A customer's order; a packer claims it.
//	    bounded: ...              # what ends the attempts of a queue state without a failure exit by worker
//	    arrows:                   # events and their transitions
//	      - event: begin
//	        to: Packing
//	        by: worker            # worker, timer, operator, owner, engine; one, a list, or joined by commas
//	        class: pass           # pass, fail, move or loop; defaults to move
//	        doc: A packer is free.
//	  - state: Packing
//	    kind: work
//	    doc: A packer collects the goods.
//	    endures: ...              # why a work state has no failure exit
//	    arrows: [{event: finish, to: Sent, by: worker, class: pass, doc: The parcel is on its way.},
//	      {event: fail, to: Broken, by: [worker, timer], class: fail, doc: Something is missing.}]
//	  - state: Sent
//	    kind: end
//	    outcome: ok               # ok, failed, timed-out or cancelled
//	    doc: The parcel is with the carrier.
//	  - state: Broken
//	    kind: end
//	    outcome: failed
//	    restartable: true         # the transitions of the end may restart the job
//	    doc: A person has to check it.
//	    arrows:                   # events that leave the end
//	      - event: retry
//	        reenter: [Packing]    # instead of to: the state that the last failure left, if listed
//	        by: [operator, owner]
//	        doc: Tried again.
//
// A transition may also have sets (the outcome that it decides), when (the outcome that it needs), restart: true (it
// empties the outcome), asks: true (by a person: the worker keeps its claim and is notified) and budget (the limit that
// ends a circle without people).
//
// # Mermaid
//
// A diagram shows only states and transitions. The rest is inferred, and only the rules about the shape are checked:
//
//   - The start is the target of [*] or of a node START, else the first state.
//   - A state that leads to the outermost [*], or whose description or note has the word final, is an end. So is a
//     state with the name of an end (such as Completed, FAILED, Deleted, Timeout or Killed) and only dashed exits. Its
//     outcome follows from the name. Any other state without exits is a dead end.
//   - A transition may happen without people, except a dashed one (-.->), which is an operator's. A guard at the end of
//     a label adds the limit of a circle, as in "retry [3 attempts]", or the actor, as in "delete [operator]".
//   - A transition's event is its label; without a label it is "to" and the target's name.
//   - A <<choice>>, <<fork>>, <<join>> or rhombus is no state: its transitions are joined through it.
//   - A composite state with one region is replaced by its inside. Transitions to it lead to the inner start.
//     Transitions from it leave the states that lead to the inner [*], or all inner states if there are none.
//     A composite state with parallel regions stays a single state, and each region is a lifecycle of its own.
//   - If any state has a description (X : text), all should: one without it is probably a misspelt name.
package notation
