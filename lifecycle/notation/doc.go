// Package notation reads lifecycles from text: tables written as YAML, and state diagrams and flowcharts of Mermaid,
// which is how documents of others describe them. [Lint] states with line and column what is wrong with one, [Compare]
// how two descriptions of the same lifecycle differ.
//
// # YAML
//
// A table in full; queue and work states carry the loops lost, wait, backoff and yield unless loops is false or a
// transition of theirs has the same event:
//
//	name: shop.order
//	states:
//	  - state: Open
//	    kind: queue               # queue, work, wait or end; the first state is the start
//	    doc: A customer's order brings it here; a packer takes it.
//	    bounded: ...              # what bounds the attempts of a queue state that has no failure exit (transition of class fail by worker)
//	    arrows:
//	      - event: begin
//	        to: Packing
//	        by: worker            # worker, timer, operator, owner, engine: one, a list, or joined by commas
//	        class: pass           # pass, fail, move or loop; move when left out
//	        doc: A packer is free.
//	  - state: Packing
//	    kind: work
//	    doc: A packer collects the goods.
//	    endures: ...              # why a work state has no failure exit, if it has none
//	    arrows:
//	      - {event: finish, to: Sent, by: worker, class: pass, doc: The parcel is on its way.}
//	      - {event: fail, to: Broken, by: [worker, timer], class: fail, doc: Something is missing.}
//	  - state: Sent
//	    kind: end
//	    outcome: ok               # ok, failed, timed-out or cancelled; of a job that ends here
//	    doc: The parcel is with the carrier.
//	  - state: Broken
//	    kind: end
//	    outcome: failed
//	    restartable: true         # an end that may be run again by the one who its transitions name
//	    doc: Somebody has to appear.
//	    arrows:
//	      - event: retry
//	        reenter: [Packing]    # instead of to: back to the state the last failure left, if it is one of these
//	        by: [operator, owner]
//	        doc: Tried again.
//
// A transition may also have sets (the outcome it decides), when (the outcome it needs), restart: true (it empties the
// outcome), asks: true (a person's: the worker that has the job keeps it and is notified) and budget (the limit that
// ends a circle that runs by itself).
//
// # Mermaid
//
// A diagram shows states and transitions and nothing else, so the rest is inferred, and only the rules of shape are
// held against it:
//
//   - The start is where [*] or a node START leads, else the state named first.
//   - A state that leads to the outermost [*], or whose description or note calls it final, is an end. So is one that has
//     the name of an end (Completed, FAILED, Deleted, Timeout, Killed and the like) and no exits but dashed ones. Its
//     outcome follows from the name. A state without exits that is no end is a dead end.
//   - Every transition may happen by itself, but a dashed one (-.->) is an operator's. A guard at the end of a label states more:
//     the limit of a circle, as in "retry [3 attempts]", or who acts, as in "delete [operator]".
//   - A transition's event is its label; without one it is "to" and the target's name.
//   - A <<choice>>, <<fork>>, <<join>> or rhombus is no state: its transitions are joined through it.
//   - A composite state with one region stands for what is inside: transitions to it lead to its inner start, transitions from it
//     leave the states that lead to its inner [*], or all inner states if none does. One with parallel regions stays a single state, and each region is a
//     lifecycle of its own.
//   - If any state is described (X : text), all should be: one that is not is probably a misspelt name.
package notation
