//! The local time zone, which agents on the command line use.

/// Returns the current offset of the local time zone, in minutes east of UTC.
#[cfg(unix)]
pub fn utc_offset_minutes() -> i32 {
    use windlass::port::clock::Clock;
    let now = windlass::clock::SystemClock::new().now();
    let Ok(seconds) = libc::time_t::try_from(now.0 / 1000) else { return 0 };
    let mut local = std::mem::MaybeUninit::<libc::tm>::uninit();
    // SAFETY: both pointers are valid for the call. `local` is read only if the call has filled it.
    let local = unsafe {
        if libc::localtime_r(&seconds, local.as_mut_ptr()).is_null() {
            return 0;
        }
        local.assume_init()
    };
    i32::try_from(local.tm_gmtoff / 60).unwrap_or_default()
}

#[cfg(not(unix))]
pub fn utc_offset_minutes() -> i32 {
    0
}
