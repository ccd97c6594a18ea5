package job

import "context"

// MostAddress is how many bytes the address of a sender has at most.
const MostAddress = 64

// Withheld replaces an address that the reader may not see. The hash of such an entry cannot be computed.
const Withheld = "***"

type addressKey struct{}

// WithAddress returns a context for what the sender of a request does. The entries of histories and of the audit log
// that the engine makes under it have the network address of the sender. What is longer than [MostAddress] is cut.
func WithAddress(ctx context.Context, address string) context.Context {
	return context.WithValue(ctx, addressKey{}, address[:min(len(address), MostAddress)])
}

// AddressOf returns the address of the sender under whose context something is done; "" if no request causes it.
func AddressOf(ctx context.Context) string {
	address, _ := ctx.Value(addressKey{}).(string)
	return address
}
