//! Returns memory to the system while the server idles: memory that only the start of
//! the server or a burst of work needed.
//!
//! A server is idle if it uses little CPU. Dropped pages of the program are not lost: they stay in the kernel's file
//! cache and are mapped again when they are used. On systems other than Linux this module does nothing.

use std::time::Duration;

/// Interval between readings of the CPU time. Each reading wakes the process, so the interval is long.
const LOOK_EVERY: Duration = Duration::from_secs(15);
/// Maximum CPU time per interval of an idle server in milliseconds: two percent of a core. The server's timers take a
/// tenth of that, and a run takes a few milliseconds.
const IDLE_MS: u64 = 300;

/// Returns memory each time the server becomes idle. The future never completes.
pub async fn give_back_when_idle() {
    let mut watch = Watch::default();
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        if cpu_ms().is_some_and(|cpu_ms| watch.becomes_idle(cpu_ms)) {
            give_back();
        }
    }
}

/// Detects that the server becomes idle, from the CPU time that the process has used.
#[derive(Debug)]
struct Watch {
    cpu_ms: u64,
    is_busy: bool,
}

impl Default for Watch {
    /// A server starts as busy, because its start uses the CPU.
    fn default() -> Self {
        Self { cpu_ms: 0, is_busy: true }
    }
}

impl Watch {
    /// Records the total CPU time so far. Returns whether the server was busy at the previous reading and is idle now.
    fn becomes_idle(&mut self, cpu_ms: u64) -> bool {
        let used_ms = cpu_ms.saturating_sub(self.cpu_ms);
        self.cpu_ms = cpu_ms;
        let was_busy = std::mem::replace(&mut self.is_busy, used_ms > IDLE_MS);
        was_busy && !self.is_busy
    }
}

#[cfg(target_os = "linux")]
use linux::{cpu_ms, give_back};

/// Returns `None`: the CPU time is unknown on other systems.
#[cfg(not(target_os = "linux"))]
fn cpu_ms() -> Option<u64> {
    None
}

/// Does nothing: other systems have no equivalent.
#[cfg(not(target_os = "linux"))]
fn give_back() {}

#[cfg(target_os = "linux")]
mod linux {
    use std::ffi::{c_int, c_void};

    /// Segment type of a loadable segment, and the flag of a writable one. (elf(5))
    const PT_LOAD: u32 = 1;
    const PF_W: u32 = 2;
    /// Segment type of the dynamic section. The entries below state whether relocations are applied
    /// to a segment that is not writable.
    const PT_DYNAMIC: u32 = 2;
    const DT_TEXTREL: usize = 22;
    const DT_FLAGS: usize = 30;
    const DF_TEXTREL: usize = 4;

    /// Returns the CPU time that the process has used, user and system, in milliseconds.
    pub fn cpu_ms() -> Option<u64> {
        let mut used = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `used` is valid for writes during the call.
        let failed = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut used) } != 0;
        let used = std::time::Duration::new(used.tv_sec.try_into().ok()?, used.tv_nsec.try_into().ok()?);
        if failed { None } else { used.as_millis().try_into().ok() }
    }

    /// Returns free heap memory and unmodified pages of the program to the system.
    pub fn give_back() {
        #[cfg(target_env = "gnu")]
        // SAFETY: `malloc_trim` takes the allocator's locks and returns only free memory.
        unsafe {
            libc::malloc_trim(0);
        }
        // SAFETY: the callback has the required type, keeps none of its arguments, and does not unwind.
        unsafe { libc::dl_iterate_phdr(Some(let_go), std::ptr::null_mut()) };
    }

    /// Drops the read-only pages of the program. Stops the walk after the first loaded object, which is the program:
    /// libraries are small, and other processes share their pages.
    ///
    /// # Safety
    /// `info` describes a loaded object, as `dl_iterate_phdr` passes it.
    unsafe extern "C" fn let_go(info: *mut libc::dl_phdr_info, _size: usize, _data: *mut c_void) -> c_int {
        const END: c_int = 1;
        // SAFETY: the caller passes a description that is valid for the call.
        let info = unsafe { &*info };
        if info.dlpi_phdr.is_null() {
            return END;
        }
        // SAFETY: the description gives the number of headers. They stay mapped, because the program is never unloaded.
        let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
        let place = |address: usize| info.dlpi_addr as usize + address;
        let dynamic = headers.iter().find(|header| header.p_type == PT_DYNAMIC).map(|header| {
            let entries = header.p_memsz as usize / size_of::<[usize; 2]>();
            // SAFETY: the dynamic section is a table of pairs of words. The section stays
            // mapped and is no longer written.
            unsafe {
                std::slice::from_raw_parts(place(header.p_vaddr as usize) as *const [usize; 2], entries)
            }
        });
        if dynamic.is_some_and(has_text_relocations) {
            return END;
        }
        // SAFETY: `sysconf` only reads a system constant.
        let Ok(page) = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }) else { return END };
        for header in headers.iter().filter(|header| header.p_type == PT_LOAD && header.p_flags & PF_W == 0) {
            let first = place(header.p_vaddr as usize);
            let begin = first - first % page;
            let bytes = first + header.p_memsz as usize - begin;
            // SAFETY: the segment is a private mapping of the program's file and is never modified: it is not
            // writable (relocated constants, `.data.rel.ro`, belong to a segment that is), and no relocation is
            // applied to it. So each page equals the file's content, and any thread that uses a dropped page
            // reads it again from the file. The system refuses writes to the file of a running program. Only
            // breakpoints of a debugger are lost.
            unsafe { libc::madvise(begin as *mut c_void, bytes, libc::MADV_DONTNEED) };
        }
        END
    }

    /// Whether the loader writes to segments that are not writable.
    fn has_text_relocations(dynamic: &[[usize; 2]]) -> bool {
        let entries = dynamic.iter().take_while(|[tag, _]| *tag != 0);
        entries
            .into_iter()
            .any(|[tag, value]| *tag == DT_TEXTREL || *tag == DT_FLAGS && value & DF_TEXTREL != 0)
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        /// Returns the size of the resident pages of mapped files, in KiB.
        fn file_kib() -> u64 {
            let status = std::fs::read_to_string("/proc/self/status").unwrap();
            let line = status.lines().find(|line| line.starts_with("RssFile:")).unwrap();
            line.split_whitespace().nth(1).unwrap().parse().unwrap()
        }

        #[test]
        fn pages_of_the_program_are_let_go_and_come_back_as_they_were() {
            // Uses constants with and without relocations: reading them maps their pages again.
            let constants = || format!("{:?}{}", [file!(), line_of()], "é".to_uppercase());
            let (before, said) = (file_kib(), constants());
            give_back();
            let after = file_kib();
            assert!(after < before / 2, "{before} KiB were mapped, and {after} KiB are");
            assert_eq!(constants(), said);
            assert!(cpu_ms().is_some());
        }

        fn line_of() -> &'static str {
            concat!(line!(), module_path!())
        }

        #[test]
        fn a_program_with_text_relocations_keeps_its_pages() {
            assert!(!has_text_relocations(&[[5, DF_TEXTREL], [DT_FLAGS, 8], [0, 0], [DT_TEXTREL, 0]]));
            assert!(has_text_relocations(&[[5, 1], [DT_TEXTREL, 0], [0, 0]]));
            assert!(has_text_relocations(&[[DT_FLAGS, 8 | DF_TEXTREL], [0, 0]]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_released_once_after_work() {
        let mut watch = Watch::default();
        let looks = [900, 950, 1_000, 1_300, 1_601, 1_650, 3_000, 9_000, 9_010, 9_020];
        let released: Vec<u64> = looks.into_iter().filter(|cpu_ms| watch.becomes_idle(*cpu_ms)).collect();
        // The server becomes idle after its start, after a short busy interval and after a longer
        // one. Use below the limit is ignored.
        assert_eq!(released, [950, 1_650, 9_010]);
    }
}
