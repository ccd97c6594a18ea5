package seccomp

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_X86_64

// x32 is the bit in the number of calls of the x32 ABI, which shares the architecture's name.
const x32 = 0x40000000

// foreign kills what calls by another ABI.
func (p *program) foreign() {
	p.op(unix.BPF_JMP|unix.BPF_JGE|unix.BPF_K, x32, 0, 1)
	p.answer(unix.SECCOMP_RET_KILL_PROCESS)
}

// own refuses what only this architecture has.
func (p *program) own() {
	for _, n := range []uint32{unix.SYS_KEXEC_FILE_LOAD, unix.SYS_IOPL, unix.SYS_IOPERM, unix.SYS_MODIFY_LDT,
		unix.SYS_USELIB, unix.SYS__SYSCTL, unix.SYS_CREATE_MODULE} {
		p.refuse(n, eperm)
	}
	p.bits(unix.SYS_CHMOD, 1, setIDs)
	p.bits(unix.SYS_CREAT, 1, setIDs)
	p.bits(unix.SYS_MKNOD, 1, setIDs)
	p.creates(unix.SYS_OPEN, 1, 2)
}
