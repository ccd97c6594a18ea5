package postgres

import (
	"fmt"
	"log"
	"sync/atomic"
)

var exampleDatabases atomic.Int64

// TemporaryDatabase makes a database for an example. remove removes it.
func TemporaryDatabase() (database string, remove func()) {
	if errServer != nil {
		log.Fatal(errServer)
	}
	name := fmt.Sprintf("example_%d", exampleDatabases.Add(1))
	if err := testServer.Exec("postgres", "CREATE DATABASE "+name); err != nil {
		log.Fatal(err)
	}
	return testServer.URL(name), func() {
		if err := testServer.Exec("postgres", "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			log.Fatal(err)
		}
	}
}
