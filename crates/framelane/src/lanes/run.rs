//! Batches in, outputs out, in order, with the lanes kept busy in between.

use super::{Lanes, Ticket};
use crate::batch::Batch;
use crate::error::Result;
use std::collections::VecDeque;

/// Outputs of a network, in the order of its inputs. Made by [`Lanes::run`].
pub struct Run<'a, I> {
    lanes: &'a Lanes,
    batches: Option<I>,
    /// Read, but no slot was free for its output.
    waiting: Option<Batch>,
    tickets: VecDeque<Result<Ticket>>,
}

impl<'a, I: Iterator<Item = Result<Batch>>> Run<'a, I> {
    pub(super) fn new(lanes: &'a Lanes, batches: I) -> Self {
        Self { lanes, batches: Some(batches), waiting: None, tickets: VecDeque::new() }
    }

    fn next_input(&mut self) -> Option<Result<Batch>> {
        if let Some(batch) = self.waiting.take() {
            return Some(Ok(batch));
        }
        let next = self.batches.as_mut()?.next();
        if next.is_none() {
            self.batches = None;
        }
        next
    }

    /// Enqueue until every slot is in use, or there is no more input.
    fn fill(&mut self) {
        loop {
            let ticket = match self.next_input() {
                None => return,
                Some(Err(error)) => Err(error),
                Some(Ok(batch)) => match self.lanes.try_submit(&batch) {
                    Ok(Some(ticket)) => Ok(ticket),
                    Ok(None) if self.tickets.is_empty() => {
                        // The caller holds every slot: wait for it to let one go.
                        self.lanes.submit(&batch)
                    }
                    Ok(None) => {
                        self.waiting = Some(batch);
                        return;
                    }
                    Err(error) => Err(error),
                },
            };
            // An error is told before more is read: an input of nothing else would be read for ever.
            let failed = ticket.is_err();
            self.tickets.push_back(ticket);
            if failed {
                return;
            }
        }
    }
}

impl<I: Iterator<Item = Result<Batch>>> Iterator for Run<'_, I> {
    type Item = Result<Batch>;

    fn next(&mut self) -> Option<Self::Item> {
        self.fill();
        Some(self.tickets.pop_front()?.and_then(Ticket::wait))
    }
}
