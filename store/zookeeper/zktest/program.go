package zktest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"
)

// Program is a program of a Merritt system: it makes the requests of the Java library, one after the other, and shares
// no code with the packages that are tested. Its methods are for one goroutine.
type Program struct {
	Conn   *zk.Conn
	Delete string // what Hand has storage take out of an object, each name with a line end
}

// errBusy means that another client has the lock.
var errBusy = errors.New("locked")

// Now is the time that a program writes. It is fixed, so that trees can be compared.
const Now = "2026-11-20 10:21:44 +0000"

func (p *Program) create(path, data string, flags int32) error {
	_, err := p.Conn.Create(path, []byte(data), flags, zk.WorldACL(zk.PermAll))
	return err
}

// put creates a node that may exist.
func (p *Program) put(path, data string) error {
	if err := p.create(path, data, 0); err != zk.ErrNodeExists {
		return err
	}
	return nil
}

func (p *Program) set(path, data string) error {
	_, err := p.Conn.Set(path, []byte(data), -1)
	return err
}

// drop removes a node that may be gone.
func (p *Program) drop(path string) error {
	if err := p.Conn.Delete(path, -1); err != zk.ErrNoNode {
		return err
	}
	return nil
}

// Text returns the data of a node, "" if it does not exist.
func (p *Program) Text(path string) string {
	data, _, err := p.Conn.Get(path)
	if err != nil {
		return ""
	}
	return string(data)
}

// Status returns the status of a batch, job or access request by its path, "" if there is none.
func (p *Program) Status(path string) string {
	s, _ := p.object(path + "/status")["status"].(string)
	return s
}

// Message returns the message of the status of a batch, job or access request, "" if there is none.
func (p *Program) Message(path string) string {
	s, _ := p.object(path + "/status")["message"].(string)
	return s
}

// Last returns the last successful state of a job, "" if there is none.
func (p *Program) Last(id string) string {
	s, _ := p.object("/jobs/" + id + "/status")["last_successful_status"].(string)
	return s
}

func (p *Program) object(path string) map[string]any {
	o := map[string]any{}
	_ = json.Unmarshal([]byte(p.Text(path)), &o)
	return o
}

// Names returns the children of a node in order.
func (p *Program) Names(path string) []string {
	names, _, err := p.Conn.Children(path)
	if err != nil {
		return nil
	}
	slices.Sort(names)
	return names
}

// Acquire locks the first job of a state that is not locked, "" if there is none, as Job.acquireJob.
func (p *Program) Acquire(state string) (string, error) {
	if p.exists("/locks/queue/ingest") {
		return "", nil
	}
	for _, entry := range p.Names("/jobs/states/" + strings.ToLower(state)) {
		if len(entry) < 4 {
			continue
		}
		id := entry[3:]
		if err := p.Lock("/jobs/" + id); errors.Is(err, errBusy) {
			continue
		} else if err != nil {
			return "", err
		}
		if p.Status("/jobs/"+id) == state {
			return id, nil
		}
		if err := p.Unlock("/jobs/" + id); err != nil {
			return "", err
		}
	}
	return "", nil
}

func (p *Program) exists(path string) bool {
	found, _, err := p.Conn.Exists(path)
	return err == nil && found
}

// Lock and Unlock lock a batch, job or access request.
func (p *Program) Lock(path string) error {
	err := p.create(path+"/lock", "", zk.FlagEphemeral)
	if err == zk.ErrNodeExists || err == zk.ErrNoNode {
		return errBusy
	}
	return err
}

// Unlock removes the lock of whatever client has it.
func (p *Program) Unlock(path string) error { return p.drop(path + "/lock") }

// dirs are the directories of references by state.
var dirs = map[string]string{"Failed": "batch-failed", "Completed": "batch-completed", "Deleted": "batch-deleted"}

func dirOf(state string) string {
	if d := dirs[state]; d != "" {
		return d
	}
	return "batch-processing"
}

// Move sets the status of a job as setStatus of the Java library: status, queue entry, and the reference of the batch,
// which it removes and creates at each change.
func (p *Program) Move(id, to, message string) error {
	return p.move(id, to, message, func(o map[string]any) {
		if to != "Failed" && to != "Held" && o["status"] != "Failed" && o["status"] != "Held" {
			o["last_successful_status"] = o["status"]
		}
	})
}

// Requeue moves a failed job to a state and counts the retry, as the admin tool does.
func (p *Program) Requeue(id, to string) error {
	return p.move(id, to, "", func(o map[string]any) {
		n, _ := o["retry_count"].(float64)
		o["retry_count"] = n + 1
	})
}

func (p *Program) move(id, to, message string, change func(map[string]any)) error {
	path := "/jobs/" + id
	o := p.object(path + "/status")
	from, _ := o["status"].(string)
	change(o)
	o["status"], o["last_modified"], o["message"] = to, Now, message
	data, err := json.Marshal(o)
	if err != nil {
		return err
	}
	priority := p.Text(path + "/priority")
	entry := func(s string) string {
		return fmt.Sprintf("/jobs/states/%s/%02s-%s", strings.ToLower(s), priority, id)
	}
	batch := "/batches/" + p.Text(path+"/bid") + "/states/"
	return errors.Join(p.set(path+"/status", string(data)), p.drop(entry(from)), p.put(entry(to), ""),
		p.put(batch+dirOf(to), ""), p.drop(batch+dirOf(from)+"/"+id), p.put(batch+dirOf(to)+"/"+id, ""))
}

// phases are the states of work of a job, in order.
var phases = []string{"Pending", "Estimating", "Provisioning", "Downloading", "Processing", "Storing", "Recording",
	"Notify", "Completed"}

// Finish works on a job that is locked in Pending until it is completed, and unlocks it. Each phase is a program of its
// own: the job is unlocked and locked between them.
func (p *Program) Finish(id string) error {
	for i, state := range phases[1:] {
		if err := p.Move(id, state, "Success"); err != nil {
			return err
		}
		if err := p.Unlock("/jobs/" + id); err != nil || i == len(phases)-2 {
			return err
		}
		if err := p.Lock("/jobs/" + id); err != nil {
			return err
		}
	}
	return nil
}

// Storing returns what the storage daemon reads of a job: where its files are listed, what to do with them, and which
// files of the object it removes.
func (p *Program) Storing(id string) (manifest, mode, remove string) {
	o := p.object("/jobs/" + id + "/store")
	manifest, _ = o["manifest_url"].(string)
	mode, _ = o["mode"].(string)
	remove, _ = o["delete"].(string)
	return manifest, mode, remove
}

// Recording returns what the inventory daemon reads of a job: where the stored object is listed.
func (p *Program) Recording(id string) (manifest string) {
	manifest, _ = p.object("/jobs/" + id + "/inventory")["manifest_url"].(string)
	return manifest
}

// Hand writes what the process daemon leaves to storage and inventory.
func (p *Program) Hand(id, manifest, mode, listed string) error {
	store := fmt.Sprintf(`{"manifest_url":%q,"mode":%q,"delete":%q,"theirs":1}`, manifest, mode, p.Delete)
	return errors.Join(p.put("/jobs/"+id+"/store", store),
		p.put("/jobs/"+id+"/inventory", fmt.Sprintf(`{"manifest_url":%q,"mode":"","theirs":1}`, listed)))
}

// Priority changes the priority of a job, as setStatusWithPriority.
func (p *Program) Priority(id string, priority int) error {
	path := "/jobs/" + id
	dir := "/jobs/states/" + strings.ToLower(p.Status(path)) + "/"
	old := p.Text(path + "/priority")
	return errors.Join(p.set(path+"/priority", fmt.Sprint(priority)), p.drop(fmt.Sprintf("%s%02s-%s", dir, old, id)),
		p.put(fmt.Sprintf("%s%02d-%s", dir, priority, id), ""))
}

// Batch moves a batch to a state, as setStatus.
func (p *Program) Batch(id, to, message string) error {
	o := p.object("/batches/" + id + "/status")
	o["status"], o["last_modified"], o["message"] = to, Now, message
	data, err := json.Marshal(o)
	if err != nil {
		return err
	}
	return p.set("/batches/"+id+"/status", string(data))
}

// Put and Drop make and remove a lock of the queue or of a collection, as the admin tool does.
func (p *Program) Put(lock string) error  { return p.put(lock, "") }
func (p *Program) Drop(lock string) error { return p.drop(lock) }

// Mark makes a lock with data.
func (p *Program) Mark(lock, data string) error { return p.put(lock, data) }

// Submit creates a batch in Pending, as createBatch. It returns its id.
func (p *Program) Submit(uuid, profile, filename, kind string) (string, error) {
	path, err := p.Conn.Create("/batches/bid", nil, zk.FlagSequence, zk.WorldACL(zk.PermAll))
	if err != nil {
		return "", err
	}
	id := strings.TrimPrefix(path, "/batches/")
	submission := fmt.Sprintf(`{"batchID":%q,"profile":%q,"type":%q,"size":1,"filename":%q,"update":false,`+
		`"submitter":"ann/Ann","submissionDate":"Thu Nov 20 10:17:00 PST 2025","notificationFormat":"xml","theirs":1}`,
		uuid, profile, kind, filename)
	return id, errors.Join(p.put("/batch-uuids/"+uuid, id), p.put(path+"/submission", submission),
		p.put(path+"/status", fmt.Sprintf(`{"status":"Pending","last_modified":%q,"message":""}`, Now)))
}

// Begin acquires a pending batch, creates jobs of it, one for each file, and moves it to Reporting, as the batch daemon
// does. It returns the ids of the jobs.
func (p *Program) Begin(batch, uuid, profile string, files ...string) (ids []string, err error) {
	path := "/batches/" + batch
	if err := errors.Join(p.Lock(path), p.put(path+"/states", ""), p.Batch(batch, "Processing", "")); err != nil {
		return nil, err
	}
	for _, file := range files {
		id, err := p.createJob(batch, uuid, profile, file)
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, errors.Join(p.Batch(batch, "Reporting", "Success"), p.Unlock(path))
}

func (p *Program) createJob(batch, uuid, profile, file string) (string, error) {
	path, err := p.Conn.Create("/jobs/jid", nil, zk.FlagSequence, zk.WorldACL(zk.PermAll))
	if err != nil {
		return "", err
	}
	id := strings.TrimPrefix(path, "/jobs/")
	configuration := fmt.Sprintf(`{"batchID":%q,"jobID":%q,"profile":%q,"type":"file","filename":%q,"update":false,`+
		`"submitter":"ann/Ann","submissionDate":"2025-01-01T00:00:00-08:00","theirs":1}`, uuid, "job-"+file,
		profile, file)
	refs := "/batches/" + batch + "/states/batch-processing"
	status := fmt.Sprintf(`{"status":"Pending","last_successful_status":null,"last_modified":%q,"retry_count":0,`+
		`"message":""}`, Now)
	return id, errors.Join(p.Lock(path), p.put(path+"/bid", batch), p.put(path+"/priority", "5"),
		p.put(path+"/space_needed", "0"), p.put(path+"/configuration", configuration),
		p.put(path+"/identifiers", `{"primary_id":"","local_id":[]}`), p.put(path+"/status", status),
		p.put("/jobs/states/pending/05-"+id, ""), p.put(refs, ""), p.put(refs+"/"+id, ""), p.Unlock(path))
}
