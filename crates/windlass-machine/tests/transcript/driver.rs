//! The lines of a transcript that a driver reports by itself: passed time, and starts that were not dispatched.

use windlass_machine::*;

use super::Stage;
use crate::script::key;

impl Stage {
    /// `tick`: this many seconds pass on every clock; `jump`: on the wall clock alone.
    pub(super) fn ticked(&mut self, words: &[String]) -> Input {
        self.now += 1000 * words[1].parse::<u64>().unwrap();
        let open = self.run().into_iter().flat_map(Run::open).filter(|_| words[0] == "tick");
        Input::Tick { confirmed: open.map(|(_, asked)| asked.interrupt.clone()).collect() }
    }

    /// `undispatched 0 schema`: reports a recorded start of call 0 as not dispatched, with a changed schema.
    pub(super) fn undispatched(&mut self, words: &[String]) -> Input {
        let (call, view) = (key(&words[1], self.run()), self.changed(&words[2..]));
        let start = self.call(call).map_or(0, |call| call.starts);
        Input::NotDispatched { call, start, view }
    }
}
