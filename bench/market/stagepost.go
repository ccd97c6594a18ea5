package main

import (
	"context"
	"fmt"

	"github.com/stagepost/stagepost/bench/internal/bare"
	"github.com/stagepost/stagepost/bench/internal/measured"
)

// payload is what a job of any system carries: 200 bytes as JSON.
var payload = measured.Payload.Text

type stagepost struct{ engine *measured.Engine }

func openStagepost(_ context.Context, s setting) (peer, error) {
	e, err := measured.Open(s.dir, s.callers, s.begin)
	return stagepost{e}, err
}

func (p stagepost) do(ctx context.Context, _ int64) error { return p.engine.Do(ctx) }

func (p stagepost) close() error { return p.engine.Close() }

// bareLoop writes the rows of a job without an engine.
type bareLoop struct {
	loop  *bare.Loop
	begin func()
}

func openBare(_ context.Context, s setting) (peer, error) {
	l, err := bare.Open(s.dir, bare.Options{})
	return bareLoop{l, s.begin}, err
}

func (p bareLoop) do(_ context.Context, i int64) error {
	p.begin()
	row := bare.Row{Job: i, New: true, ID: fmt.Sprintf("j8_%026d", i), Spec: payload, Actor: 1}
	for row.Version = 1; row.Version <= steps+2; row.Version++ {
		if err := p.loop.Commit(row); err != nil {
			return err
		}
		row.New, row.State, row.At = false, row.Version, row.Version
	}
	return nil
}

func (p bareLoop) close() error { return p.loop.Close() }
