package layout

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The nodes of the catalog, each with its path.
func TestPaths(t *testing.T) {
	b, j, q := BatchID("bid0000000003"), JobID("jid0000000042"), AccessID("qid0000000001")
	for got, want := range map[string]string{
		b.Path():                          "/batches/bid0000000003",
		b.Submission():                    "/batches/bid0000000003/submission",
		b.Status():                        "/batches/bid0000000003/status",
		b.States():                        "/batches/bid0000000003/states",
		b.Lock():                          "/batches/bid0000000003/lock",
		b.HeldMark():                      "/batches/bid0000000003/states/batch-held",
		b.Reference(Failed.BatchDir(), j): "/batches/bid0000000003/states/batch-failed/jid0000000042",
		j.Batch():                         "/jobs/jid0000000042/bid",
		j.Priority():                      "/jobs/jid0000000042/priority",
		j.Space():                         "/jobs/jid0000000042/space_needed",
		j.Configuration():                 "/jobs/jid0000000042/configuration",
		j.Identifiers():                   "/jobs/jid0000000042/identifiers",
		j.Metadata():                      "/jobs/jid0000000042/metadata",
		j.Store():                         "/jobs/jid0000000042/store",
		j.Inventory():                     "/jobs/jid0000000042/inventory",
		j.Status():                        "/jobs/jid0000000042/status",
		j.Lock():                          "/jobs/jid0000000042/lock",
		Downloading.Entry(7, j):           "/jobs/states/downloading/07-jid0000000042",
		Large.Token(q):                    "/access/large/qid0000000001/token",
		Small.Status(q):                   "/access/small/qid0000000001/status",
		Small.Lock(q):                     "/access/small/qid0000000001/lock",
		Small.Paused():                    "/locks/queue/accessSmall",
		Large.Paused():                    "/locks/queue/accessLarge",
		UUID("bid-1"):                     "/batch-uuids/bid-1",
		CollectionLock("maps_content"):    "/locks/collections/maps_content",
		StorageLock("ark:/99999/fk4a"):    "/locks/storage/ark_99999_fk4a",
		InventoryLock("ark:/99999/fk4a"):  "/locks/inventory/ark_99999_fk4a",
		LocalIDLock("local:1/2", "ark:/13030/j2"): "/locks/localid/local:1_2_ark_13030_j2",
	} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if got := [2]Queue{QueueOf(500_000_000), QueueOf(500_000_001)}; got != [2]Queue{Small, Large} {
		t.Errorf("queues by size: %v", got)
	}
}

func TestSkeleton(t *testing.T) {
	all := Skeleton()
	if len(all) != 4+12+9 {
		t.Errorf("%d nodes: %q", len(all), all)
	}
	for i, path := range all {
		parent := path[:strings.LastIndex(path, "/")]
		if parent != "" && !slices.Contains(all[:i], parent) {
			t.Errorf("%s is not after its parent", path)
		}
	}
}

func TestSequence(t *testing.T) {
	if got := Sequence(JobPrefix, 42); got != "jid0000000042" {
		t.Errorf("got %s", got)
	}
	for name, want := range map[string]int64{"jid0000000042": 42, "jid2147483648": 2147483648, "jid0000000000": 0,
		"jid": -1, "bid0000000042": -1, "jid42": -1, "jid00000000x2": -1, "jid-000000042": -1, "": -1,
		"jid99999999999999999999": -1} {
		n, ok := NumberOf(JobPrefix, name)
		if ok != (want >= 0) || ok && n != want {
			t.Errorf("%q: got %d, %v, want %d", name, n, ok, want)
		}
	}
}

// Entries are parsed at the first "-", so that entries of the originals above priority 99 can be read.
func TestEntry(t *testing.T) {
	for p, want := range map[int]string{5: "05-jid0000000001", 0: "00-jid0000000001", 99: "99-jid0000000001",
		100: "99-jid0000000001", -3: "00-jid0000000001"} {
		if got := EntryName(p, "jid0000000001"); got != want {
			t.Errorf("priority %d: %s, want %s", p, got, want)
		}
	}
	for name, want := range map[string]int{"05-jid0000000001": 5, "105-jid0000000001": 105, "5-jid0000000001": 5,
		"05-jid1": -1, "jid0000000001": -1, "-jid0000000001": -1, "--jid0000000001": -1, "x5-jid0000000001": -1,
		"+5-jid0000000001": -1, "-5-jid0000000001": -1, "": -1, "05-bid0000000001": -1} {
		p, j, ok := ParseEntry(name)
		if ok != (want >= 0) || ok && (p != want || j != "jid0000000001") {
			t.Errorf("%q: got %d, %s, %v, want %d", name, p, j, ok, want)
		}
	}
	names := []string{"bad", "105-jid0000000001", "05-jid0000000003", "05-jid0000000002", "99-jid0000000000"}
	SortEntries(names)
	want := []string{"05-jid0000000002", "05-jid0000000003", "99-jid0000000000", "105-jid0000000001", "bad"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Error(diff)
	}
}

func TestParseStatus(t *testing.T) {
	for text, want := range map[string]Status{"Pending": Pending, "pending": Pending,
		"UpdateReporting": UpdateReporting, "update-reporting": UpdateReporting, "": "", "Lost": ""} {
		if got, ok := ParseStatus(text); got != want || ok != (want != "") {
			t.Errorf("%q: %q, %v", text, got, ok)
		}
	}
}

// Every pair of states is allowed or refused as the table of the original has it.
func TestTables(t *testing.T) {
	for _, one := range []struct {
		name    string
		table   *Table
		states  []Status
		allowed string
	}{
		{"job", &JobTable, JobStatuses, `Pending>Held Pending>Estimating Pending>Failed Held>Pending Held>Deleted
			Estimating>Provisioning Estimating>Failed Provisioning>Downloading Provisioning>Failed
			Downloading>Processing Downloading>Failed Processing>Storing Processing>Failed Storing>Recording
			Storing>Failed Recording>Notify Recording>Failed Notify>Completed Notify>Failed Failed>Pending
			Failed>Estimating Failed>Provisioning Failed>Downloading Failed>Processing Failed>Storing
			Failed>Recording Failed>Notify Failed>Deleted`},
		{"batch", &BatchTable, BatchStatuses, `Pending>Held Pending>Processing Held>Pending Held>Deleted
			Processing>Reporting Processing>Failed Reporting>Completed Reporting>Failed Failed>UpdateReporting
			Failed>Deleted UpdateReporting>Completed UpdateReporting>Failed`},
		{"access", &AccessTable, AccessStatuses, `Pending>Processing Processing>Completed Processing>Failed
			Failed>Processing Failed>Deleted Failed>Pending`},
	} {
		want := strings.Fields(one.allowed)
		seen := 0
		for _, from := range one.states {
			for _, to := range one.states {
				listed := slices.Contains(want, string(from)+">"+string(to))
				if one.table.Allowed(from, to) != listed {
					t.Errorf("%s: %s to %s: allowed %v", one.name, from, to, !listed)
				}
				if listed {
					seen++
				}
			}
			for _, next := range []func(Status) (Status, bool){one.table.Success, one.table.Failure} {
				if to, ok := next(from); ok && !one.table.Allowed(from, to) {
					t.Errorf("%s: the outcome of %s, %s, is not allowed", one.name, from, to)
				}
			}
		}
		if seen != len(want) {
			t.Errorf("%s: %d of %d transitions have states of the table", one.name, seen, len(want))
		}
	}
}

func TestResume(t *testing.T) {
	for last, want := range map[Status]Status{"": Estimating, Pending: Estimating, Estimating: Provisioning,
		Provisioning: Downloading, Downloading: Processing, Processing: Storing, Storing: Recording, Recording: Notify,
		Notify: Estimating, Held: Estimating, Failed: Estimating, Completed: Estimating} {
		if got := Resume(last); got != want || !JobTable.Allowed(Failed, got) {
			t.Errorf("after %q: %s, want %s", last, got, want)
		}
	}
	for _, s := range JobStatuses {
		want := s != Held && s != Failed && s != Completed && s != Deleted
		if s.Active() != want {
			t.Errorf("%s is active: %v", s, s.Active())
		}
		wantDir := map[Status]BatchDir{Failed: IsFailed, Completed: IsCompleted, Deleted: IsDeleted}[s]
		if wantDir == "" {
			wantDir = InProcess
		}
		if s.BatchDir() != wantDir || s.Deletable() != (s == Completed || s == Deleted) {
			t.Errorf("%s: directory %s, deletable %v", s, s.BatchDir(), s.Deletable())
		}
	}
}

var at = time.Date(2026, 11, 20, 10, 21, 44, 0, time.FixedZone("", 0))

func TestStatusData(t *testing.T) {
	fresh := JobStatus{Status: Pending, Modified: at}
	const text = `{"last_modified":"2026-11-20 10:21:44 +0000","last_successful_status":null,"message":"",` +
		`"retry_count":0,"status":"Pending"}`
	if got := string(fresh.Encode()); got != text {
		t.Errorf("a new job:\n%s\nwant\n%s", got, text)
	}
	read, err := ParseJobStatus([]byte(`{"status":"Failed","retry_count":3,"message":"<a & b>","priority_was":7,` +
		`"last_successful_status":"Recording","last_modified":"2025-01-02 03:04:05 -0800","x":{"deep":[1, 2.50]}}`))
	if err != nil || read.Status != Failed || read.Retries != 3 || read.Last != Recording ||
		read.Message != "<a & b>" ||
		!read.Modified.Equal(time.Date(2025, 1, 2, 11, 4, 5, 0, time.UTC)) {
		t.Fatalf("read %+v, %v", read, err)
	}
	read.Status, read.Modified = Notify, at
	const again = `{"last_modified":"2026-11-20 10:21:44 +0000","last_successful_status":"Recording",` +
		`"message":"<a & b>","priority_was":7,"retry_count":3,"status":"Notify","x":{"deep":[1,2.50]}}`
	if got := string(read.Encode()); got != again {
		t.Errorf("unknown keys:\n%s\nwant\n%s", got, again)
	}
	batch := BatchStatus{Status: UpdateReporting, Modified: at, Message: "m"}
	if got := string(batch.Encode()); got !=
		`{"last_modified":"2026-11-20 10:21:44 +0000","message":"m","status":"UpdateReporting"}` {
		t.Errorf("a batch: %s", got)
	}
	if _, ok := batch.Expected(); ok {
		t.Error("a batch expects jobs that no writer recorded")
	}
}

// What live data has and the writers of this package do not produce.
func TestKnownBadStatus(t *testing.T) {
	for text, want := range map[string]JobStatus{
		`{"status":"Pending"}`:    {Status: Pending},
		`{"status":"failed"}`:     {Status: Failed},
		"{\"status\":\"Held\"}\n": {Status: Held},
		`{"status":"Failed","retry_count":null,"message":null,"last_successful_status":"Failed"}`: {Status: Failed,
			Last: Failed},
		`{"status":"Failed","retry_count":"2","last_successful_status":"Held"}`: {Status: Failed, Last: Held,
			Retries: 2},
		`{"status":"Failed","retry_count":-2,"last_successful_status":"nil"}`: {Status: Failed},
		`{"status":"Failed","last_modified":"yesterday","message":17}`:        {Status: Failed, Message: "17"},
	} {
		got, err := ParseJobStatus([]byte(text))
		got.Other = nil
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", text, err, diff)
		}
	}
	for _, text := range []string{"", "null", "[]", "{", `{"status":"Lost"}`, `{"Status":""}`, `{}`, "Pending"} {
		if s, err := ParseJobStatus([]byte(text)); err == nil {
			t.Errorf("%q is read as %+v", text, s)
		}
	}
}

func TestNumbers(t *testing.T) {
	for data, want := range map[string]int64{"5": 5, "-1": 0, " 7\n": 7, "": 0, "x": 0, "1e3": 1000, "1.5": 0,
		"9223372036854775807": 9223372036854775807} {
		if got := Space([]byte(data)); got != want {
			t.Errorf("space %q: %d, want %d", data, got, want)
		}
	}
	if n, err := ParseInt([]byte("-1")); n != -1 || err != nil {
		t.Errorf("-1: %d, %v", n, err)
	}
	if n, err := ParseInt(nil); err == nil {
		t.Errorf("no data: %d", n)
	}
	if got := string(FormatInt(-1)); got != "-1" {
		t.Error(got)
	}
	if id, err := ParseID[BatchID]([]byte("bid0000000001\n")); id != "bid0000000001" || err != nil {
		t.Errorf("%q, %v", id, err)
	}
	if id, err := ParseID[BatchID]([]byte("jid0000000001")); err == nil {
		t.Errorf("the id of a job is read as %q", id)
	}
}

func TestIdentifiersData(t *testing.T) {
	for data, want := range map[string]Identifiers{
		"":                                {},
		`{"primary_id":"","local_id":[]}`: {Local: []string{}},
		`{"primary_id":"ark:/1/a"}`:       {Primary: "ark:/1/a"},
		`{"local_id":"a;b"}`:              {Local: []string{"a;b"}},
		`{"primary_id":null,"local_id":["a","b"]}`: {Local: []string{"a", "b"}},
	} {
		got, err := ParseIdentifiers([]byte(data))
		got.Other = nil
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", data, err, diff)
		}
	}
	if _, err := ParseIdentifiers([]byte("{")); err == nil {
		t.Error("half an object is read")
	}
	if got := string((&Identifiers{}).Encode()); got != `{"local_id":[],"primary_id":""}` {
		t.Errorf("no identifiers: %s", got)
	}
}

func TestOtherData(t *testing.T) {
	s, err := ParseStored([]byte(`{"manifest_url":"http://h/m","mode":"add/7001/ark%3A","delete":"producer/a\n",` +
		`"z":1}`))
	if err != nil || string(s.EncodeStore()) !=
		`{"delete":"producer/a\n","manifest_url":"http://h/m","mode":"add/7001/ark%3A","z":1}` {
		t.Errorf("store: %s, %v", s.EncodeStore(), err)
	}
	if got := string((&Stored{ManifestURL: "u"}).EncodeInventory()); got != `{"manifest_url":"u","mode":""}` {
		t.Errorf("inventory: %s", got)
	}
	m, err := ParseMetadata([]byte(`{"erc_who":"w","erc_what":"t","erc_when":"d","erc_where":"p","z":1}`))
	if err != nil || string(m.Encode()) != `{"erc_what":"t","erc_when":"d","erc_where":"p","erc_who":"w","z":1}` {
		t.Errorf("metadata: %s, %v", m.Encode(), err)
	}
	const token = `{"cloud-content-byte":206290233,"delivery-node":7001,"message":"Request queued","status":201,` +
		`"token":"uuid"}`
	k, err := ParseToken([]byte(token))
	if err != nil || string(k.Encode()) != token || k.Status != 201 || k.Bytes != 206290233 || k.DeliveryNode != 7001 {
		t.Errorf("token: %+v, %v", k, err)
	}
	k.URL, k.Anticipated = "u", "later"
	if o, _ := ParseToken(k.Encode()); o.URL != "u" || o.Anticipated != "later" {
		t.Errorf("token: %+v", o)
	}
	if k, err := ParseToken([]byte(`{"status":"200"}`)); k.Status != 200 || err != nil {
		t.Errorf("a token whose status is a text: %+v, %v", k, err)
	}
	for _, parse := range []func([]byte) error{
		func(b []byte) error { _, err := ParseStored(b); return err },
		func(b []byte) error { _, err := ParseMetadata(b); return err },
		func(b []byte) error { _, err := ParseToken(b); return err },
	} {
		if parse(nil) == nil || parse([]byte("7")) == nil {
			t.Error("what is no object is read")
		}
	}
}

func TestSubmission(t *testing.T) {
	o := Object{}
	for _, key := range []string{KeyProfile, KeyType, KeyFilename, KeySubmitter, KeySubmissionDate} {
		if CheckSubmission(o) == nil {
			t.Errorf("a submission without %s passes", key)
		}
		o.Set(key, "x")
	}
	if CheckSubmission(o) == nil {
		t.Error("a submission without update passes")
	}
	o.Set(KeyUpdate, "true")
	if CheckSubmission(o) == nil {
		t.Error("a submission whose update is a text passes")
	}
	o.Set(KeyUpdate, false)
	if err := CheckSubmission(o); err != nil {
		t.Error(err)
	}
	if err := CheckConfiguration(o); err != nil {
		t.Error(err)
	}
	if CheckConfiguration(Object{KeyUpdate: []byte("true")}) == nil {
		t.Error("a configuration without profile passes")
	}
	if v, ok := o.Bool(KeyUpdate); v || !ok {
		t.Error("update is not read")
	}
	if v, ok := (Object{"a": []byte(`"true"`)}).Bool("a"); !v || !ok {
		t.Error("a truth value as text is not read")
	}
	if _, ok := o.Bool("none"); ok {
		t.Error("a missing truth value is read")
	}
}
