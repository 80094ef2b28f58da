//! Letting streams go. Dropping a stream waits for its work, and that may wait for others' work, or never end;
//! whoever drops a feed or lanes is not held up by it for ever. (CUDA's streams end by themselves: no drop waits.)

use crate::device::Stream;
use std::time::{Duration, Instant};

/// How long the streams may take, all together.
const PATIENCE: Duration = Duration::from_secs(1);

/// Wait until `streams` have done their work, for a second (counted under `why`); then another thread waits
/// instead, and the log says which they are and that `stuck`. Other handles of theirs may be dropped after this.
pub(crate) fn let_go(streams: Vec<Stream>, why: &'static str, stuck: &str) {
    let start = Instant::now();
    let mut late = Vec::new();
    for stream in streams.into_iter().filter(|stream| stream.cuda().is_none()) {
        let idle = stream.record_anyway();
        let left = PATIENCE.saturating_sub(start.elapsed());
        if matches!(idle.synchronize_for(why, left), Ok(false)) {
            log::error!("{stream:?} is left to end by itself: {stuck}");
            late.push((idle, stream));
        }
    }
    if late.is_empty() {
        return;
    }
    let wait = move || {
        for (idle, stream) in late {
            let ended = idle.synchronize(why);
            drop((stream, ended));
        }
    };
    // Without a thread the drop of the streams waits here after all.
    let _ = std::thread::Builder::new().name(why.into()).spawn(wait);
}
