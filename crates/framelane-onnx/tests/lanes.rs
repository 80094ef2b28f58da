//! Lanes of one model: as good as one lane, and one job's failure is its own.

mod common;

use common::{model, picture, run, run_in, runtimes, size, with};
use framelane::frame::FrameMeta;
use framelane::lanes::Model;
use framelane_onnx::{Options, Overrides, Runtime, upscaler};
use std::sync::Barrier;

#[test]
fn lanes_at_once_give_the_bits_of_one_lane() {
    for runtime in runtimes("lanes_at_once_give_the_bits_of_one_lane") {
        const LANES: usize = 4;
        let options = Options { lanes: LANES, ..with(runtime, Overrides::default()) };
        let model = upscaler(&options).unwrap();
        // Sizes change from frame to frame, in another order in each lane.
        let sizes = [size(48, 32), size(33, 27), size(64, 16)];
        let pictures: Vec<_> = sizes.iter().map(|&s| picture(s)).collect();
        let expected: Vec<_> =
            sizes.iter().zip(&pictures).map(|(&s, rgb)| run(&model, rgb, s).unwrap().1).collect();
        let together = Barrier::new(LANES);
        std::thread::scope(|scope| {
            for lane in 0..LANES {
                let (model, together, pictures, expected) = (&model, &together, &pictures, &expected);
                scope.spawn(move || {
                    let mut session = model.session().unwrap();
                    for round in 0..12 {
                        together.wait();
                        let i = (round + lane) % sizes.len();
                        let (_, out) = run_in(&mut *session, model, &pictures[i], sizes[i], None).unwrap();
                        assert!(out == expected[i], "{runtime}, lane {lane}, round {round}: other bits");
                    }
                });
            }
        });
    }
}

#[test]
fn a_failing_frame_is_named_and_fails_alone() {
    for runtime in runtimes("a_failing_frame_is_named_and_fails_alone") {
        let model = model("invert_nhwc_u8", runtime, Overrides::default()).unwrap();
        let mut session = model.session().unwrap();
        let of = size(8, 4);
        let rgb = picture(of);
        let first = run_in(&mut *session, &model, &rgb, of, None).unwrap();
        let meta = FrameMeta::new("clip.mp4", 7);
        // An output of the wrong size, as a caller's mistake would make it.
        let (input, wrong) = (of.spec(), size(8, 5).spec());
        let mut out = vec![0; wrong.bytes()];
        let mut times = Default::default();
        let error = session
            .run(&mut framelane::lanes::Job::new(
                &[(&input, &rgb)],
                &mut [(&wrong, &mut out)],
                Some(&meta),
                &mut times,
            ))
            .unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with("frame 7 of clip.mp4: invert_nhwc_u8.onnx"), "{text}");
        assert_eq!(run_in(&mut *session, &model, &rgb, of, Some(&meta)).unwrap(), first, "{runtime}");
    }
}

#[test]
fn conversion_is_told_apart_from_the_network() {
    let model = upscaler(&with(Runtime::Tract, Overrides::default())).unwrap();
    let of = size(64, 48);
    let (input, rgb) = (of.spec(), picture(of));
    let output = model.outputs(std::slice::from_ref(&input)).unwrap().remove(0);
    let mut out = vec![0; output.bytes()];
    let mut times = framelane::lanes::JobTimes::default();
    let mut session = model.session().unwrap();
    let start = std::time::Instant::now();
    session
        .run(&mut framelane::lanes::Job::new(&[(&input, &rgb)], &mut [(&output, &mut out)], None, &mut times))
        .unwrap();
    assert!(times.convert > std::time::Duration::ZERO && times.convert < start.elapsed());
}
