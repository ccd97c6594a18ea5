package seccomp

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_AARCH64

// foreign has nothing to do: 32-bit programs have another architecture's name.
func (p *program) foreign() {}

// own refuses what is not in every architecture's table.
func (p *program) own() { p.refuse(unix.SYS_KEXEC_FILE_LOAD, eperm) }
