//! Queries the operating system: time, CPU and memory used, core pinning, open files.
//!
//! Memory and pinning are supported on Linux only. Elsewhere, memory reads as 0 and pinning fails.

use std::io;

/// Returns the nanoseconds of a clock that all processes of this machine share and that is never set back.
pub fn monotonic_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for the write of the result, and the clock exists on every platform we build for.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Returns the CPU time in seconds, user and system, that this process has used with all its threads.
pub fn cpu_seconds() -> f64 {
    // SAFETY: a zeroed `rusage` is a valid value, and valid for the write of the result.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

/// Returns the CPU time in seconds for which all cores of the machine have been busy since it started; Linux only.
pub fn busy_seconds() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/stat").ok()?;
    let fields: Vec<f64> =
        stat.lines().next()?.split_whitespace().skip(1).filter_map(|field| field.parse().ok()).collect();
    // user, nice and system; idle and iowait are skipped; then irq, softirq and steal (proc_stat(5)).
    let ticks: f64 = fields.iter().take(3).chain(fields.iter().skip(5).take(3)).sum();
    // SAFETY: the call only reads a constant of the system.
    let ticks_per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    (ticks_per_second > 0).then(|| ticks / ticks_per_second as f64)
}

/// Returns the resident memory in KiB.
pub fn resident_kib() -> u64 {
    status_kib("VmRSS:")
}

/// Returns the peak resident memory since the process started, in KiB.
pub fn resident_peak_kib() -> u64 {
    status_kib("VmHWM:")
}

/// Returns the number of bytes that this process has submitted for writing to disks,
/// including those not written yet; Linux only.
pub fn written_bytes() -> Option<u64> {
    let io = std::fs::read_to_string("/proc/self/io").ok()?;
    io.lines().find_map(|line| line.strip_prefix("write_bytes: "))?.parse().ok()
}

fn status_kib(key: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with(key));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok()).unwrap_or(0)
}

/// Pins this process to one core. Threads started later inherit it.
#[cfg(target_os = "linux")]
pub fn pin_to_core(core: usize) -> io::Result<()> {
    // SAFETY: a zeroed `cpu_set_t` is the empty set. `CPU_SET` writes within the set,
    // because the core is below its size.
    let result = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(core % libc::CPU_SETSIZE as usize, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Returns an error: pinning is unsupported on this platform.
#[cfg(not(target_os = "linux"))]
pub fn pin_to_core(_core: usize) -> io::Result<()> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "pinning to a core needs Linux"))
}

/// Raises the limit of open files to the system's maximum, because a thousand streams need as many sockets.
pub fn raise_open_files_limit() {
    // SAFETY: `limit` is valid for the write of the result, and a valid argument afterwards.
    unsafe {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        if libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
        }
    }
}
