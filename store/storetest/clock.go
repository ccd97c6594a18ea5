package storetest

import (
	"time"

	"github.com/stagepost/stagepost/job"
)

// clockTests are for stores that keep the time ([job.ClockStore]), which durable ones do.
var clockTests = []test{
	{"gives what was kept last, after it is opened again too", clockKept},
}

func clockKept(w *harness) {
	if _, ok := w.st.(job.ClockStore); !ok {
		if w.st.Properties().Durable {
			w.Fatal("a durable store keeps the time: it is a job.ClockStore")
		}
		w.Skip("not durable: it need not keep the time")
	}
	holds := func(want job.KeptClock) {
		w.Helper()
		got, err := w.st.(job.ClockStore).KeptClock(w.Context())
		if err != nil || !got.Trusted.Equal(want.Trusted) || !got.Latest.Equal(want.Latest) ||
			!got.Confirmed.Equal(want.Confirmed) {
			w.Fatalf("got %+v, %v, want %+v", got, err, want)
		}
	}
	holds(job.KeptClock{})
	early := w.now()
	for i, k := range []job.KeptClock{
		{Trusted: early, Latest: early.Add(time.Hour)},
		{Trusted: early.Add(time.Minute), Latest: early.Add(-time.Hour), Confirmed: early.AddDate(1, 0, 0)},
		{Trusted: time.Unix(0, 0), Latest: time.Unix(0, 0), Confirmed: time.UnixMicro(-1)},
		{Trusted: early},
	} {
		if err := w.st.(job.ClockStore).KeepClock(w.Context(), k); err != nil {
			w.Fatal(err)
		}
		holds(k)
		if i == 1 || i == 2 {
			w.restart()
			holds(k)
		}
	}
}
