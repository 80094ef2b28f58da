//! From the order in which pictures are stored to the order in which they are shown.

use super::demux::{Sample, Track};
use framelane::frame::FrameRate;

/// The place of each sample in the film.
pub(crate) struct Order {
    /// By stored order; [`HIDDEN`] if the sample is not shown.
    places: Vec<u32>,
    /// The first place that belongs to none of the first *n* samples.
    undecoded: Vec<u32>,
    shown: u32,
    /// Ticks of the first and the last picture, and between neighbours if it is always the same.
    first: i64,
    last: i64,
    step: Option<i64>,
}

const HIDDEN: u32 = u32::MAX;

impl Order {
    /// Pictures are shown in the order of their times; equal times keep the stored order.
    pub(crate) fn new(samples: &[Sample]) -> Self {
        let mut order: Vec<u32> = (0..samples.len() as u32).filter(|&i| samples[i as usize].shown).collect();
        order.sort_by_key(|&i| samples[i as usize].time);
        let mut places = vec![HIDDEN; samples.len()];
        for (place, &sample) in order.iter().enumerate() {
            places[sample as usize] = place as u32;
        }
        let mut undecoded = vec![HIDDEN; samples.len() + 1];
        for i in (0..samples.len()).rev() {
            undecoded[i] = undecoded[i + 1].min(places[i]);
        }
        let time = |i: &u32| samples[*i as usize].time;
        let mut steps = order.windows(2).map(|pair| time(&pair[1]).saturating_sub(time(&pair[0])));
        let step = steps.next().filter(|first| steps.all(|s| s == *first));
        Self {
            places,
            undecoded,
            shown: order.len() as u32,
            first: order.first().map_or(0, time),
            last: order.last().map_or(0, time),
            step,
        }
    }

    /// Number of the picture in the film; `None` if it is not shown.
    pub(crate) fn place(&self, sample: usize) -> Option<u32> {
        Some(self.places[sample]).filter(|&place| place != HIDDEN)
    }

    /// The first place whose picture is not among the first `samples` in stored order.
    pub(crate) fn undecoded(&self, samples: usize) -> u32 {
        self.undecoded[samples]
    }

    /// Number of pictures in the film.
    pub(crate) fn shown(&self) -> u64 {
        self.shown.into()
    }

    /// Pictures per second: exact if they are evenly spaced, the mean otherwise.
    pub(crate) fn rate(&self, track: &Track) -> Option<FrameRate> {
        if let Some(step) = self.step.and_then(|s| u32::try_from(s).ok()).filter(|&s| s > 0) {
            let common = gcd(track.timescale, step);
            return Some(FrameRate { num: track.timescale / common, den: step / common });
        }
        let span = self.last.saturating_sub(self.first);
        if self.shown < 2 || span <= 0 {
            return None;
        }
        let fps = f64::from(self.shown - 1) * f64::from(track.timescale) / span as f64;
        // Rounded times of an even rate: say the rate that was meant.
        let whole = fps.round().min(1e6);
        for meant in
            [FrameRate { num: whole as u32, den: 1 }, FrameRate { num: whole as u32 * 1000, den: 1001 }]
        {
            if meant.num > 0 && (meant.fps() / fps - 1.0).abs() < 2e-4 {
                return Some(meant);
            }
        }
        let num = (fps * 1000.0).round();
        (1.0..=f64::from(u32::MAX)).contains(&num).then_some(FrameRate { num: num as u32, den: 1000 })
    }
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::super::demux::Turn;
    use super::*;

    fn samples(times: &[i64]) -> Vec<Sample> {
        times.iter().map(|&time| Sample { offset: 0, size: 1, config: 0, time, shown: time >= 0 }).collect()
    }

    fn rate(timescale: u32, times: &[i64]) -> Option<FrameRate> {
        let track = Track {
            timescale,
            configs: vec![],
            samples: samples(times),
            turn: Turn::None,
            sound: false,
            damage: None,
        };
        Order::new(&track.samples).rate(&track)
    }

    #[test]
    fn order_of_b_frames() {
        // I P B b b, as stored; the hidden one is cut off by an edit list.
        let order = Order::new(&samples(&[-1, 0, 4, 2, 1, 3]));
        assert_eq!(
            (0..6).map(|i| order.place(i)).collect::<Vec<_>>(),
            [None, Some(0), Some(4), Some(2), Some(1), Some(3)]
        );
        // After 0, 4 and 2 are decoded, 1 is still missing.
        assert_eq!((0..=6).map(|i| order.undecoded(i)).collect::<Vec<_>>(), [0, 0, 1, 1, 1, 3, HIDDEN]);
        assert_eq!(order.shown(), 5);
    }

    #[test]
    fn rates() {
        assert_eq!(rate(30000, &[0, 2002, 1001]), Some(FrameRate { num: 30000, den: 1001 }));
        assert_eq!(rate(1000, &[0, 33, 67, 100]), Some(FrameRate { num: 30, den: 1 }));
        assert_eq!(rate(1000, &[0, 100, 400]), Some(FrameRate { num: 5, den: 1 }));
        assert_eq!(rate(1000, &[0, 300, 400, 700]), Some(FrameRate { num: 4286, den: 1000 }));
        assert_eq!(rate(1000, &[0]), None);
        assert_eq!(rate(1000, &[5, 5, 5]), None);
    }
}
