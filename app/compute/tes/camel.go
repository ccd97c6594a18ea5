package tes

import (
	"bytes"
	"encoding/json"
)

// shape lists which fields of an object of the standard clients write in camel case, and what lies below it. Keys of
// maps (env, tags, parameters) are a user's own and are left alone.
type shape struct {
	fields map[string]string
	below  map[string]*shape
}

var taskShape = &shape{
	fields: map[string]string{"creationTime": "creation_time"},
	below: map[string]*shape{
		"outputs":   {fields: map[string]string{"pathPrefix": "path_prefix"}},
		"executors": {fields: map[string]string{"ignoreError": "ignore_error"}},
		"resources": {fields: map[string]string{
			"cpuCores": "cpu_cores", "ramGb": "ram_gb", "diskGb": "disk_gb", "backendParameters": "backend_parameters",
			"backendParametersStrict": "backend_parameters_strict",
		}},
		"logs": {
			fields: map[string]string{"startTime": "start_time", "endTime": "end_time", "systemLogs": "system_logs"},
			below: map[string]*shape{
				"logs": {fields: map[string]string{"startTime": "start_time", "endTime": "end_time",
					"exitCode": "exit_code"}},
				"outputs": {fields: map[string]string{"sizeBytes": "size_bytes"}},
			},
		},
	},
}

// Standard gives the JSON text of a task with the names of the standard: the client of Funnel writes those of protocol
// buffers (cpuCores). A text without such names, or that is no JSON, is given as it is.
func Standard(text []byte) []byte {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil || d.More() || !taskShape.rename(v) {
		return text
	}
	out, err := json.Marshal(v)
	if err != nil {
		return text
	}
	return out
}

// rename changes the names in a value and reports whether there were any. A field that is there under both names stays,
// and is refused as unknown.
func (s *shape) rename(v any) (changed bool) {
	switch v := v.(type) {
	case []any:
		for _, one := range v {
			changed = s.rename(one) || changed
		}
	case map[string]any:
		for from, to := range s.fields {
			value, has := v[from]
			if _, both := v[to]; has && !both {
				delete(v, from)
				v[to], changed = value, true
			}
		}
		for name, below := range s.below {
			changed = below.rename(v[name]) || changed
		}
	}
	return changed
}
