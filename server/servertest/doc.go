// Package servertest has what tests of a server's routes share.
//
// A [Harness] is a server on a store in memory, a [Guarded] one that requires tokens. The functions Check... compare
// every route of a table with one rule each: headers and methods (CheckRoutes), roles (CheckRoles, CheckMatrix), jobs
// of others (CheckForeign), pages of lists, filters, idempotency keys, versions, reasons, and absent applications.
// [CheckPart] calls those that the routes of every application must pass. A [Contract] compares answers with the
// description of the API. [Harness.Browser] runs a script in a browser.
package servertest
