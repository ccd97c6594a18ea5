package pg

import (
	"encoding/binary"

	"github.com/jackc/pgx/v5/pgtype"
)

// RegisterArrays makes a connection encode parameters of the types []int64, []int32, []bool, []string, [][]byte and
// []pgtype.UUID as arrays of their own. pgx makes a value of an interface for each element, and a slower call.
func RegisterArrays(m *pgtype.Map) {
	register(m, pgtype.Int8ArrayOID, pgtype.Int8OID, func(b []byte, v int64) ([]byte, bool) {
		return binary.BigEndian.AppendUint64(b, uint64(v)), true
	})
	register(m, pgtype.Int4ArrayOID, pgtype.Int4OID, func(b []byte, v int32) ([]byte, bool) {
		return binary.BigEndian.AppendUint32(b, uint32(v)), true
	})
	register(m, pgtype.BoolArrayOID, pgtype.BoolOID, func(b []byte, v bool) ([]byte, bool) {
		if v {
			return append(b, 1), true
		}
		return append(b, 0), true
	})
	register(m, pgtype.TextArrayOID, pgtype.TextOID, func(b []byte, v string) ([]byte, bool) {
		return append(b, v...), true
	})
	register(m, pgtype.ByteaArrayOID, pgtype.ByteaOID, func(b []byte, v []byte) ([]byte, bool) {
		return append(b, v...), v != nil
	})
	register(m, pgtype.UUIDArrayOID, pgtype.UUIDOID, func(b []byte, v pgtype.UUID) ([]byte, bool) {
		return append(b, v.Bytes[:]...), v.Valid
	})
}

// arrays is the codec of an array type, with a plan of its own for values of the type []E.
type arrays[E any] struct {
	pgtype.Codec
	plan plan[E]
}

func register[E any](m *pgtype.Map, array, element uint32, put func([]byte, E) ([]byte, bool)) {
	t, _ := m.TypeForOID(array) // every map has these types
	m.RegisterType(&pgtype.Type{Name: t.Name, OID: array, Codec: arrays[E]{t.Codec, plan[E]{element, put}}})
}

// PlanEncode is part of pgtype.Codec.
func (c arrays[E]) PlanEncode(m *pgtype.Map, oid uint32, format int16, value any) pgtype.EncodePlan {
	if _, ok := value.([]E); ok && format == pgtype.BinaryFormatCode {
		return c.plan
	}
	return c.Codec.PlanEncode(m, oid, format, value)
}

// plan encodes arrays with elements of a type.
type plan[E any] struct {
	element uint32
	put     func(to []byte, v E) (b []byte, valid bool) // appends the value of an element; false: NULL
}

// Encode is part of pgtype.EncodePlan. The format is that of array_recv in PostgreSQL: the number of dimensions,
// whether there are NULLs, the type of the elements, their number, the first index; and each element with its length
// before it.
func (p plan[E]) Encode(value any, buf []byte) ([]byte, error) {
	list, start := value.([]E), len(buf)
	buf = binary.BigEndian.AppendUint32(buf, 1)
	buf = binary.BigEndian.AppendUint32(buf, 0)
	buf = binary.BigEndian.AppendUint32(buf, p.element)
	buf = binary.BigEndian.AppendUint32(buf, uint32(len(list)))
	buf = binary.BigEndian.AppendUint32(buf, 1)
	for _, one := range list {
		at := len(buf)
		b, valid := p.put(append(buf, 0, 0, 0, 0), one)
		length := uint32(len(b) - at - 4)
		if !valid {
			b, length = b[:at+4], ^uint32(0)
			binary.BigEndian.PutUint32(b[start+4:], 1)
		}
		binary.BigEndian.PutUint32(b[at:], length)
		buf = b
	}
	return buf, nil
}
