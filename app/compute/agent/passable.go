package agent

import (
	"os"
	"path/filepath"

	"github.com/stagepost/stagepost/edge/sandbox"
)

// passable is the mode of the agent's directories above a job's which every user may pass through and none may list.
const passable = 0o711

// openWay lets jobs reach their own directories by their paths. In tier none an agent of root gives each job a user id
// of its own, and the job has the machine's paths. What is above the agent's directories is for the operator to open.
func openWay(o *Options) error {
	if o.Sandbox != sandbox.None || os.Geteuid() != 0 {
		return nil
	}
	for _, dir := range []string{o.Dir, filepath.Join(o.Dir, payloadsName)} {
		if err := os.Chmod(dir, passable); err != nil {
			return err
		}
	}
	for dir := filepath.Dir(o.Dir); ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		switch {
		case err != nil:
			return err
		case info.Mode()&0o001 == 0:
			o.Log.Warn("jobs run as users of their own and cannot reach their directories by absolute paths", "closed",
				dir,
				"remedy", "chmod o+x "+dir+", or a sandbox")
			return nil
		case dir == filepath.Dir(dir):
			return nil
		}
	}
}

// wayMode is the mode of a payload's own directory.
func (a *App) wayMode() os.FileMode {
	if a.options.Sandbox == sandbox.None && os.Geteuid() == 0 {
		return passable
	}
	return 0o700
}
