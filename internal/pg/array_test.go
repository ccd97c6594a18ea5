package pg

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgtype"
)

// TestArrays: arrays have the bytes that pgx encodes. The control is a value whose type has no plan of its own.
func TestArrays(t *testing.T) {
	id := pgtype.UUID{Bytes: [16]byte{1, 2, 3, 15: 9}, Valid: true}
	own, theirs := pgtype.NewMap(), pgtype.NewMap()
	RegisterArrays(own)
	for _, c := range []struct {
		oid  uint32
		list any
		mine bool
	}{
		{pgtype.Int8ArrayOID, []int64{0, 1, -1, 1 << 62, -1 << 63}, true},
		{pgtype.Int8ArrayOID, []int64{}, true},
		{pgtype.Int8ArrayOID, []int64(nil), true},
		{pgtype.Int8ArrayOID, []int{1, 2}, false},
		{pgtype.Int4ArrayOID, []int32{0, 1, -1, 1 << 30}, true},
		{pgtype.Int4ArrayOID, []int32{}, true},
		{pgtype.BoolArrayOID, []bool{true, false}, true},
		{pgtype.BoolArrayOID, []bool{}, true},
		{pgtype.TextArrayOID, []string{"", "a", "ü \x01 \"{},", string(make([]byte, 300))}, true},
		{pgtype.TextArrayOID, []string{}, true},
		{pgtype.TextArrayOID, []*string{nil, new("a")}, false},
		{pgtype.ByteaArrayOID, [][]byte{{}, {0, 255}, nil, make([]byte, 300)}, true},
		{pgtype.ByteaArrayOID, [][]byte{nil}, true},
		{pgtype.ByteaArrayOID, [][]byte{}, true},
		{pgtype.UUIDArrayOID, []pgtype.UUID{id, {}, id}, true},
		{pgtype.UUIDArrayOID, []pgtype.UUID{}, true},
	} {
		t.Run(fmt.Sprintf("%T of %d", c.list, c.oid), func(t *testing.T) {
			prefix := []byte("before")
			got, err := own.Encode(c.oid, pgtype.BinaryFormatCode, c.list, bytes.Clone(prefix))
			if err != nil {
				t.Fatal(err)
			}
			want, err := theirs.Encode(c.oid, pgtype.BinaryFormatCode, c.list, bytes.Clone(prefix))
			if err != nil || !bytes.Equal(got, want) || (got == nil) != (want == nil) {
				t.Errorf("got  %x\nwant %x, %v", got, want, err)
			}
			allocated := testing.AllocsPerRun(10, func() {
				_, err = own.Encode(c.oid, pgtype.BinaryFormatCode, c.list, got[:0])
			})
			if err != nil || (allocated == 0) != c.mine {
				t.Errorf("%.0f allocations, %v", allocated, err)
			}
			text, err := own.Encode(c.oid, pgtype.TextFormatCode, c.list, nil)
			other, err2 := theirs.Encode(c.oid, pgtype.TextFormatCode, c.list, nil)
			if err != nil || err2 != nil || !bytes.Equal(text, other) {
				t.Errorf("as a text: got %q, want %q", text, other)
			}
		})
	}
}
