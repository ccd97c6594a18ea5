// Flow-saga reserves a trip with three independent companies. If a step fails, the reservations are cancelled, the last
// one first. A bank confirms the payment; the flow waits for it without a goroutine. The first trip is paid, the second
// is refused, and the signal for the third does not come.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"github.com/stagepost/stagepost/flow"
)

// paid is what the bank answers.
const paid = flow.Signal[string]("paid")

var (
	traveller = flow.Name[string]("traveller")
	ticket    = flow.Name[string]("ticket")
	suite     = flow.Name[string]("suite")
	answer    = flow.Name[string]("answer")
)

// agency reserves and cancels.
type agency struct{ out io.Writer }

func (a *agency) reserve(what string) func(context.Context, string) (string, error) {
	return func(_ context.Context, who string) (string, error) {
		fmt.Fprintln(a.out, "booked a", what, "for", who)
		return what + " of " + who, nil
	}
}

func (a *agency) cancel(_ context.Context, _ string, booked *string) error {
	if booked != nil { // else there was no booking
		fmt.Fprintln(a.out, "cancelled the", *booked)
	}
	return nil
}

func (a *agency) trip() *flow.Flow {
	payment := paid.Wait("payment", time.Hour)
	payment.Result = flow.One(answer.String())
	return flow.Linear("trip",
		flow.Func1("flight", traveller, ticket, a.reserve("flight"), a.cancel),
		flow.Func1("hotel", traveller, suite, a.reserve("suite"), a.cancel),
		payment,
		flow.Proc3("send", ticket, suite, answer, func(_ context.Context, ticket, suite, answer string) error {
			if answer != "yes" {
				return errors.New("the bank answers " + answer)
			}
			fmt.Fprintln(a.out, "sent", ticket, "and", suite)
			return nil
		}, nil),
	)
}

// travel runs one trip. Without an answer of the bank the time passes until the timeout.
func (a *agency) travel(ctx context.Context, who, bank string) error {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	r, err := flow.New(a.trip(), flow.Options{ID: who, Inject: flow.Put(traveller, who),
		Now: func() time.Time { return now }})
	if err != nil {
		return err
	}
	rest, err := r.Advance(ctx)
	if err != nil {
		return err
	}
	if bank == "" {
		now = rest.Until
	} else if err := paid.Send(r, bank); err != nil {
		return err
	}
	_, err = r.Advance(ctx)
	fmt.Fprintln(a.out, r.State(), err)
	var f *flow.Failure
	if err != nil && !errors.As(err, &f) { // not the failure of a task
		return err
	}
	return nil
}

func run(ctx context.Context, out io.Writer) error {
	a := &agency{out}
	return errors.Join(a.travel(ctx, "Ada", "yes"), a.travel(ctx, "Ben", "no"), a.travel(ctx, "Cleo", ""))
}

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		log.Fatal(err)
	}
}
