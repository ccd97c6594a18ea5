package flow

import "context"

// Func0 makes a task of a function that returns a value. The variants of Func0 take the name, the keys of the
// arguments in the order of the function's parameters, the key of the result, the function, and the function that
// reverts it. The revert gets the same arguments and a pointer to the result, nil if the task failed. A nil revert does
// nothing. The task's other fields may be set afterwards. [New] refuses tasks whose types do not match. A value of
// another type from storage or from an untyped task fails the task or its revert with an error that names the value.
// [CallOf] returns the [Call].
func Func0[R any](name string, out Key[R],
	do func(context.Context) (R, error), undo func(context.Context, *R) error) *Task {
	t := newTyped(name, do != nil, out)
	t.Execute = func(ctx context.Context, c *Call) (any, error) {
		return do(withCall(ctx, c))
	}
	if undo == nil {
		return t
	}
	t.Revert = func(ctx context.Context, c *Call) (any, error) {
		r := reader{c: c}
		was := resultOf[R](&r)
		if r.err != nil {
			return nil, r.err
		}
		return nil, undo(withCall(ctx, c), was)
	}
	return t
}

// Func1 is [Func0] with one argument.
func Func1[A, R any](name string, k1 Key[A], out Key[R],
	do func(context.Context, A) (R, error), undo func(context.Context, A, *R) error) *Task {
	t := newTyped(name, do != nil, out, k1)
	t.Execute = func(ctx context.Context, c *Call) (any, error) {
		r := reader{c: c}
		v1 := argOf(&r, k1)
		if r.err != nil {
			return nil, r.err
		}
		return do(withCall(ctx, c), v1)
	}
	if undo == nil {
		return t
	}
	t.Revert = func(ctx context.Context, c *Call) (any, error) {
		r := reader{c: c}
		v1 := argOf(&r, k1)
		was := resultOf[R](&r)
		if r.err != nil {
			return nil, r.err
		}
		return nil, undo(withCall(ctx, c), v1, was)
	}
	return t
}

// Func2 is [Func0] with two arguments.
func Func2[A, B, R any](name string, k1 Key[A], k2 Key[B], out Key[R],
	do func(context.Context, A, B) (R, error), undo func(context.Context, A, B, *R) error) *Task {
	t := newTyped(name, do != nil, out, k1, k2)
	t.Execute = func(ctx context.Context, c *Call) (any, error) {
		r := reader{c: c}
		v1, v2 := argOf(&r, k1), argOf(&r, k2)
		if r.err != nil {
			return nil, r.err
		}
		return do(withCall(ctx, c), v1, v2)
	}
	if undo == nil {
		return t
	}
	t.Revert = func(ctx context.Context, c *Call) (any, error) {
		r := reader{c: c}
		v1, v2 := argOf(&r, k1), argOf(&r, k2)
		was := resultOf[R](&r)
		if r.err != nil {
			return nil, r.err
		}
		return nil, undo(withCall(ctx, c), v1, v2, was)
	}
	return t
}

// Func3 is [Func0] with three arguments.
func Func3[A, B, C, R any](name string, k1 Key[A], k2 Key[B], k3 Key[C], out Key[R],
	do func(context.Context, A, B, C) (R, error), undo func(context.Context, A, B, C, *R) error) *Task {
	t := newTyped(name, do != nil, out, k1, k2, k3)
	t.Execute = func(ctx context.Context, c *Call) (any, error) {
		r := reader{c: c}
		v1, v2, v3 := argOf(&r, k1), argOf(&r, k2), argOf(&r, k3)
		if r.err != nil {
			return nil, r.err
		}
		return do(withCall(ctx, c), v1, v2, v3)
	}
	if undo == nil {
		return t
	}
	t.Revert = func(ctx context.Context, c *Call) (any, error) {
		r := reader{c: c}
		v1, v2, v3 := argOf(&r, k1), argOf(&r, k2), argOf(&r, k3)
		was := resultOf[R](&r)
		if r.err != nil {
			return nil, r.err
		}
		return nil, undo(withCall(ctx, c), v1, v2, v3, was)
	}
	return t
}

// Func4 is [Func0] with four arguments.
func Func4[A, B, C, D, R any](name string, k1 Key[A], k2 Key[B], k3 Key[C], k4 Key[D], out Key[R],
	do func(context.Context, A, B, C, D) (R, error), undo func(context.Context, A, B, C, D, *R) error) *Task {
	t := newTyped(name, do != nil, out, k1, k2, k3, k4)
	t.Execute = func(ctx context.Context, c *Call) (any, error) {
		r := reader{c: c}
		v1, v2, v3, v4 := argOf(&r, k1), argOf(&r, k2), argOf(&r, k3), argOf(&r, k4)
		if r.err != nil {
			return nil, r.err
		}
		return do(withCall(ctx, c), v1, v2, v3, v4)
	}
	if undo == nil {
		return t
	}
	t.Revert = func(ctx context.Context, c *Call) (any, error) {
		r := reader{c: c}
		v1, v2, v3, v4 := argOf(&r, k1), argOf(&r, k2), argOf(&r, k3), argOf(&r, k4)
		was := resultOf[R](&r)
		if r.err != nil {
			return nil, r.err
		}
		return nil, undo(withCall(ctx, c), v1, v2, v3, v4, was)
	}
	return t
}

// Proc0 makes a task of a function without arguments and result; see [Func0].
func Proc0(name string,
	do func(context.Context) error, undo func(context.Context) error) *Task {
	t := newTyped(name, do != nil, nil)
	t.Execute = func(ctx context.Context, c *Call) (any, error) {
		return nil, do(withCall(ctx, c))
	}
	if undo == nil {
		return t
	}
	t.Revert = func(ctx context.Context, c *Call) (any, error) {
		return nil, undo(withCall(ctx, c))
	}
	return t
}

// Proc1 is [Proc0] with one argument.
func Proc1[A any](name string, k1 Key[A],
	do func(context.Context, A) error, undo func(context.Context, A) error) *Task {
	t := newTyped(name, do != nil, nil, k1)
	t.Execute = func(ctx context.Context, c *Call) (any, error) {
		r := reader{c: c}
		v1 := argOf(&r, k1)
		if r.err != nil {
			return nil, r.err
		}
		return nil, do(withCall(ctx, c), v1)
	}
	if undo == nil {
		return t
	}
	t.Revert = func(ctx context.Context, c *Call) (any, error) {
		r := reader{c: c}
		v1 := argOf(&r, k1)
		if r.err != nil {
			return nil, r.err
		}
		return nil, undo(withCall(ctx, c), v1)
	}
	return t
}

// Proc2 is [Proc0] with two arguments.
func Proc2[A, B any](name string, k1 Key[A], k2 Key[B],
	do func(context.Context, A, B) error, undo func(context.Context, A, B) error) *Task {
	t := newTyped(name, do != nil, nil, k1, k2)
	t.Execute = func(ctx context.Context, c *Call) (any, error) {
		r := reader{c: c}
		v1, v2 := argOf(&r, k1), argOf(&r, k2)
		if r.err != nil {
			return nil, r.err
		}
		return nil, do(withCall(ctx, c), v1, v2)
	}
	if undo == nil {
		return t
	}
	t.Revert = func(ctx context.Context, c *Call) (any, error) {
		r := reader{c: c}
		v1, v2 := argOf(&r, k1), argOf(&r, k2)
		if r.err != nil {
			return nil, r.err
		}
		return nil, undo(withCall(ctx, c), v1, v2)
	}
	return t
}

// Proc3 is [Proc0] with three arguments.
func Proc3[A, B, C any](name string, k1 Key[A], k2 Key[B], k3 Key[C],
	do func(context.Context, A, B, C) error, undo func(context.Context, A, B, C) error) *Task {
	t := newTyped(name, do != nil, nil, k1, k2, k3)
	t.Execute = func(ctx context.Context, c *Call) (any, error) {
		r := reader{c: c}
		v1, v2, v3 := argOf(&r, k1), argOf(&r, k2), argOf(&r, k3)
		if r.err != nil {
			return nil, r.err
		}
		return nil, do(withCall(ctx, c), v1, v2, v3)
	}
	if undo == nil {
		return t
	}
	t.Revert = func(ctx context.Context, c *Call) (any, error) {
		r := reader{c: c}
		v1, v2, v3 := argOf(&r, k1), argOf(&r, k2), argOf(&r, k3)
		if r.err != nil {
			return nil, r.err
		}
		return nil, undo(withCall(ctx, c), v1, v2, v3)
	}
	return t
}

// Proc4 is [Proc0] with four arguments.
func Proc4[A, B, C, D any](name string, k1 Key[A], k2 Key[B], k3 Key[C], k4 Key[D],
	do func(context.Context, A, B, C, D) error, undo func(context.Context, A, B, C, D) error) *Task {
	t := newTyped(name, do != nil, nil, k1, k2, k3, k4)
	t.Execute = func(ctx context.Context, c *Call) (any, error) {
		r := reader{c: c}
		v1, v2, v3, v4 := argOf(&r, k1), argOf(&r, k2), argOf(&r, k3), argOf(&r, k4)
		if r.err != nil {
			return nil, r.err
		}
		return nil, do(withCall(ctx, c), v1, v2, v3, v4)
	}
	if undo == nil {
		return t
	}
	t.Revert = func(ctx context.Context, c *Call) (any, error) {
		r := reader{c: c}
		v1, v2, v3, v4 := argOf(&r, k1), argOf(&r, k2), argOf(&r, k3), argOf(&r, k4)
		if r.err != nil {
			return nil, r.err
		}
		return nil, undo(withCall(ctx, c), v1, v2, v3, v4)
	}
	return t
}
