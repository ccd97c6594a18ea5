package ingest

import "fmt"

// Damaged says that stored files have faults.
type Damaged struct{ Files int }

func (d Damaged) Error() string {
	if d.Files == 1 {
		return "1 stored file has a fault"
	}
	return fmt.Sprintf("%d stored files have faults", d.Files)
}
