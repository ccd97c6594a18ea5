// Package pg is what all users of PostgreSQL share: the form of texts that it refuses, and the classes of its errors.
package pg
