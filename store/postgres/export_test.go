package postgres

import (
	"fmt"
	"log"
)

// TemporaryDatabase makes a database for an example. remove removes it.
func TemporaryDatabase() (database string, remove func()) {
	if errServer != nil {
		log.Fatal(errServer)
	}
	name := fmt.Sprintf("example_%d", databaseSeq.Add(1))
	if err := testServer.exec("postgres", "CREATE DATABASE "+name); err != nil {
		log.Fatal(err)
	}
	return testServer.url(name), func() {
		if err := testServer.exec("postgres", "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			log.Fatal(err)
		}
	}
}
